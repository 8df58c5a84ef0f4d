package conn_test

import (
	"go/types"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// kinds tells of what each interface of database/sql/driver is an option. One
// that is not here, of a later Go, fails the test until it is.
var kinds = map[string]string{
	"Conn": "conn", "ConnBeginTx": "conn", "ConnPrepareContext": "conn",
	"Execer": "conn", "ExecerContext": "conn", "Queryer": "conn", "QueryerContext": "conn",
	"Pinger": "conn", "SessionResetter": "conn", "Validator": "conn",
	"NamedValueChecker": "conn stmt",
	"Stmt":              "stmt", "StmtExecContext": "stmt", "StmtQueryContext": "stmt", "ColumnConverter": "stmt",
	"Tx":   "tx",
	"Rows": "rows", "RowsNextResultSet": "rows", "RowsColumnScanner": "rows",
	"RowsColumnTypeScanType": "rows", "RowsColumnTypeDatabaseTypeName": "rows", "RowsColumnTypeLength": "rows",
	"RowsColumnTypeNullable": "rows", "RowsColumnTypePrecisionScale": "rows",
	"Connector": "connector", "Closer": "connector",
	"Driver": "driver", "DriverContext": "driver",
	// Those of values and results: what drivers and users give is passed on as it is.
	"Valuer": "", "ValueConverter": "", "Result": "", "Value": "",
}

// claim says what one of our types claims of which inner type's interfaces.
type claim struct {
	kind, inner, ours string
	// The deliberate differences, each with its reason.
	more, less map[string]string
}

const (
	deprecated = "database/sql asks for the form with Context first"
	atReturn   = "IsValid is the only hook at return to the pool, where a lock's conn is told from a free one; " +
		"the answer is what the inner ResetSession finds at the next use"
	closes  = "db.Close must end the keeper; what the inner connector cannot close is not closed"
	answers = "the answer where the inner Rows has none is what database/sql assumes, and the inner type is known only at run time"
)

var mysqlClaims = []claim{
	{kind: "conn", inner: "*mysqlConn", ours: "*conn", less: map[string]string{"Execer": deprecated, "Queryer": deprecated}},
	{kind: "stmt", inner: "*mysqlStmt", ours: "checkerConverterStmt"},
	{kind: "tx", inner: "*mysqlTx", ours: "*ownTx"},
	{kind: "tx", inner: "*mysqlTx", ours: "*lockTx"},
	{kind: "rows", inner: "*textRows", ours: "*rows", more: map[string]string{"RowsColumnTypeLength": answers}},
	{kind: "rows", inner: "*binaryRows", ours: "*rows", more: map[string]string{"RowsColumnTypeLength": answers}},
	{kind: "connector", inner: "*connector", ours: "*Connector", more: map[string]string{"Closer": closes}},
	{kind: "connector", inner: "*connector", ours: "sessionConnector"},
	{kind: "driver", inner: "MySQLDriver", ours: "*Driver"},
}

func pgxClaims(scanRows string) []claim {
	return []claim{
		{kind: "conn", inner: "*Conn", ours: "pgConn", more: map[string]string{"Validator": atReturn}},
		{kind: "stmt", inner: "*Stmt", ours: "*stmt"},
		{kind: "tx", inner: "wrapTx", ours: "*ownTx"},
		{kind: "tx", inner: "wrapTx", ours: "*lockTx"},
		{kind: "rows", inner: "*Rows", ours: scanRows, more: map[string]string{
			"RowsNextResultSet": answers, "RowsColumnTypeNullable": answers,
		}},
		{kind: "connector", inner: "connector", ours: "*Connector", more: map[string]string{"Closer": closes}},
		{kind: "connector", inner: "*driverConnector", ours: "*Connector", more: map[string]string{"Closer": closes}},
		{kind: "driver", inner: "*Driver", ours: "*Driver"},
	}
}

func TestC65_EachTypeClaimsTheInterfacesOfTheInnerDriversAndNoOthers(t *testing.T) {
	const mysql, pgx, ours = "github.com/go-sql-driver/mysql", "github.com/jackc/pgx/v5/stdlib", "github.com/lockdb/lockdb/conn"
	c := newTypeChecker(t, mysql, pgx, ours)
	optional := map[string]*types.Interface{"Closer": interfaces(c.compiled("io"))["Closer"]}
	maps.Copy(optional, interfaces(c.compiled("database/sql/driver")))
	for name := range optional {
		_, known := kinds[name]
		require.True(t, known, "driver.%s is new: say what to do about it", name)
	}
	scanRows := "*rows"
	if optional["RowsColumnScanner"] != nil { // Go 1.27
		scanRows = "scanRows"
	}
	conn := c.source(ours)
	for path, claims := range map[string][]claim{mysql: mysqlClaims, pgx: pgxClaims(scanRows)} {
		inner := c.source(path)
		for _, cl := range claims {
			t.Run(inner.Name()+"/"+cl.inner+"/"+cl.ours, func(t *testing.T) {
				want := claimed(optional, cl.kind, named(t, inner, cl.inner))
				for name := range cl.less {
					require.Contains(t, want, name)
					delete(want, name)
				}
				for name := range cl.more {
					require.NotContains(t, want, name)
					want[name] = true
				}
				require.Equal(t, names(want), names(claimed(optional, cl.kind, named(t, conn, cl.ours))))
			})
		}
	}
}

// interfaces are the exported ones of a package.
func interfaces(pkg *types.Package) map[string]*types.Interface {
	found := make(map[string]*types.Interface)
	for _, name := range pkg.Scope().Names() {
		if tn, ok := pkg.Scope().Lookup(name).(*types.TypeName); ok && tn.Exported() {
			if i, ok := tn.Type().Underlying().(*types.Interface); ok {
				found[name] = i
			}
		}
	}
	return found
}

// claimed are those interfaces of a kind that a type has.
func claimed(optional map[string]*types.Interface, kind string, typ types.Type) map[string]bool {
	has := make(map[string]bool)
	for name, i := range optional {
		if slices.Contains(strings.Fields(kinds[name]), kind) && types.Implements(typ, i) {
			has[name] = true
		}
	}
	return has
}

func names(set map[string]bool) []string { return slices.Sorted(maps.Keys(set)) }
