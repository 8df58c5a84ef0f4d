package conn_test

import (
	"encoding/json"
	"errors"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// typeChecker checks packages from source, unexported types included, on top of
// what the go command has compiled of their imports.
type typeChecker struct {
	t        *testing.T
	fset     *token.FileSet
	listed   map[string]listedPackage
	imported types.Importer
}

type listedPackage struct {
	ImportPath, Dir, Export string
	GoFiles                 []string
	ImportMap               map[string]string
}

func newTypeChecker(t *testing.T, paths ...string) *typeChecker {
	t.Helper()
	c := &typeChecker{t: t, fset: token.NewFileSet(), listed: make(map[string]listedPackage)}
	cmd := exec.Command("go", append([]string{"list", "-export", "-deps", "-json=ImportPath,Dir,Export,GoFiles"}, paths...)...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	require.NoError(t, err)
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p listedPackage
		err := dec.Decode(&p)
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		c.listed[p.ImportPath] = p
	}
	c.imported = importer.ForCompiler(c.fset, "gc", func(path string) (io.ReadCloser, error) {
		return os.Open(c.listed[path].Export)
	})
	return c
}

// source checks a package from its files.
func (c *typeChecker) source(path string) *types.Package {
	c.t.Helper()
	p, ok := c.listed[path]
	require.True(c.t, ok, path)
	files := make([]*ast.File, len(p.GoFiles))
	for i, name := range p.GoFiles {
		var err error
		files[i], err = parser.ParseFile(c.fset, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
		require.NoError(c.t, err)
	}
	conf := types.Config{Importer: c.imported}
	pkg, err := conf.Check(path, c.fset, files, nil)
	require.NoError(c.t, err)
	return pkg
}

// compiled is a package as the checked ones import it.
func (c *typeChecker) compiled(path string) *types.Package {
	c.t.Helper()
	pkg, err := c.imported.Import(path)
	require.NoError(c.t, err)
	return pkg
}

// named finds a type; "*" before its name is a pointer to it.
func named(t *testing.T, pkg *types.Package, name string) types.Type {
	t.Helper()
	bare := strings.TrimPrefix(name, "*")
	obj := pkg.Scope().Lookup(bare)
	require.NotNil(t, obj, "%s has no %s", pkg.Path(), bare)
	if bare != name {
		return types.NewPointer(obj.Type())
	}
	return obj.Type()
}
