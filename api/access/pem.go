package access

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"
)

// maxKeys is the most bytes of a file or an answer that holds keys.
const maxKeys = 1 << 20

// readPublicKey reads the first public key or certificate of a PEM file, and the
// algorithm it is for.
func readPublicKey(path string) (crypto.PublicKey, string, error) {
	text, err := readFile(path)
	if err != nil {
		return nil, "", err
	}
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, "", fmt.Errorf("%s is not PEM: it begins with -----BEGIN PUBLIC KEY-----", path)
	}
	var key crypto.PublicKey
	switch block.Type {
	case "PUBLIC KEY":
		key, err = x509.ParsePKIXPublicKey(block.Bytes)
	case "RSA PUBLIC KEY":
		key, err = x509.ParsePKCS1PublicKey(block.Bytes)
	case "CERTIFICATE":
		var c *x509.Certificate
		if c, err = x509.ParseCertificate(block.Bytes); err == nil {
			key = c.PublicKey
		}
	default:
		return nil, "", fmt.Errorf("%s holds a %s: want a PUBLIC KEY, which openssl pkey -pubout makes of a private one", path, block.Type)
	}
	if err != nil {
		return nil, "", fmt.Errorf("%s: %w", path, err)
	}
	algorithm, err := algorithmOf(key)
	if err != nil {
		return nil, "", fmt.Errorf("%s: %w", path, err)
	}
	return key, algorithm, nil
}

// minRSA is the least size of an RSA key in bits (RFC 7518, section 3.3).
const minRSA = 2048

// algorithmOf is the algorithm that a public key is for. The library would take
// keys of any curve and size.
func algorithmOf(key crypto.PublicKey) (string, error) {
	switch k := key.(type) {
	case *rsa.PublicKey:
		if k.N.BitLen() < minRSA {
			return "", fmt.Errorf("an RSA key of %d bits can be broken: want %d or more", k.N.BitLen(), minRSA)
		}
		return RS256, nil
	case *ecdsa.PublicKey:
		if k.Curve != elliptic.P256() {
			return "", fmt.Errorf("a key of the curve %s: want P-256, for ES256", k.Params().Name)
		}
		return ES256, nil
	case ed25519.PublicKey:
		return EdDSA, nil
	}
	return "", errors.New("not a key for RS256, ES256 or EdDSA")
}

func readFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readBounded(f, path)
}

func readBounded(r io.Reader, name string) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(r, maxKeys+1))
	if err == nil && len(text) > maxKeys {
		err = fmt.Errorf("%s is larger than 1 MiB", name)
	}
	return text, err
}
