package client_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Every name of this package in docs/client.md is one that it has, and its Go
// code reads as Go.
func TestDocs(t *testing.T) {
	text, err := os.ReadFile("../docs/client.md")
	require.NoError(t, err)
	packages, err := parser.ParseDir(token.NewFileSet(), ".", func(f fs.FileInfo) bool { return !strings.HasSuffix(f.Name(), "_test.go") }, 0)
	require.NoError(t, err)
	known := map[string]bool{}
	for _, f := range packages["client"].Files {
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				known[n.Name.Name] = true
			case *ast.TypeSpec:
				known[n.Name.Name] = true
			case *ast.Field:
				for _, name := range n.Names {
					known[name.Name] = true
				}
			case *ast.ValueSpec:
				for _, name := range n.Names {
					known[name.Name] = true
				}
			}
			return true
		})
	}
	names := regexp.MustCompile("client\\.([A-Z]\\w*)|`([A-Z][a-z]\\w+)`").FindAllStringSubmatch(string(text), -1)
	assert.Greater(t, len(names), 40)
	for _, m := range names {
		assert.True(t, known[m[1]+m[2]], "%s is not in this package", m[0])
	}
	blocks := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(string(text), -1)
	assert.Len(t, blocks, 4)
	for _, m := range blocks {
		code, imports := m[1], ""
		if line, rest, ok := strings.Cut(code, "\n"); ok && strings.HasPrefix(line, "import ") {
			imports, code = line, rest
		}
		_, err := parser.ParseFile(token.NewFileSet(), "", "package p\n"+imports+"\nfunc f() error {\n"+code+"\n}", 0)
		assert.NoError(t, err, m[1])
	}
}
