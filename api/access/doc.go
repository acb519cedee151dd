// Package access answers who may do what: it knows API keys, JSON Web Tokens
// (RFC 7519) and what anybody may do, and makes of a token a [Grant]. It knows
// no HTTP but that by which it fetches a set of keys.
//
// Files, one idea each:
//
//	access.go  Options, Checker: from a token to a grant
//	grant.go   Rights and Grant
//	jwt.go     JSON Web Tokens: what is verified, and how their claims are read
//	pem.go     a public key in a file
//	jwks.go    a set of keys in a file or at a URL, kept fresh
//
// No error of this package holds a token or a part of one. Everything here is
// safe for concurrent use.
package access
