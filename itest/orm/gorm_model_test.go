package orm_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"gorm.io/gorm"
	"gorm.io/gorm/clause"
)

func TestGormModels(t *testing.T) {
	eachGorm(t, func(t *testing.T, g gormCase) {
		ann := author{Name: "Ann", Books: []book{{Title: "A"}, {Title: "B"}}}
		require.NoError(t, g.Create(&ann).Error)
		require.NotZero(t, ann.ID)
		require.NotZero(t, ann.Books[1].ID)

		batch := make([]author, 25)
		for i := range batch {
			batch[i].Name = string(rune('a' + i))
		}
		require.NoError(t, g.CreateInBatches(&batch, 10).Error)
		for _, a := range batch {
			require.NotZero(t, a.ID)
		}

		var found author
		require.NoError(t, g.Preload("Books").First(&found, "name = ?", "Ann").Error)
		require.Len(t, found.Books, 2)
		require.NoError(t, g.Clauses(clause.Locking{Strength: "UPDATE"}).First(&found, ann.ID).Error)

		require.NoError(t, g.Model(&ann).Association("Books").Append(&book{Title: "C"}))
		require.EqualValues(t, 3, g.Model(&ann).Association("Books").Count())
		require.NoError(t, g.Model(&ann).Association("Books").Delete(&ann.Books[0]))
		require.EqualValues(t, 2, g.Model(&ann).Association("Books").Count())

		var again, fresh author
		require.NoError(t, g.Where(author{Name: "Ann"}).FirstOrCreate(&again).Error)
		require.Equal(t, ann.ID, again.ID)
		require.NoError(t, g.Where(author{Name: "Eve"}).FirstOrCreate(&fresh).Error)
		require.NotZero(t, fresh.ID)

		require.NoError(t, g.Clauses(clause.OnConflict{
			Columns:   []clause.Column{{Name: "id"}},
			DoUpdates: clause.AssignmentColumns([]string{"name"}),
		}).Create(&author{ID: ann.ID, Name: "Anna"}).Error)
		require.NoError(t, g.Model(&author{}).Where("name = ?", "Eve").Update("name", "Eva").Error)
		require.NoError(t, g.Delete(&author{}, "name = ?", "a").Error)
		require.ErrorIs(t, g.First(&author{}, "name = ?", "a").Error, gorm.ErrRecordNotFound)

		var names []string
		require.NoError(t, g.Model(&author{}).Where("name IN ?", []string{"Ann", "Anna", "Eve", "Eva", "b"}).
			Order("name").Pluck("name", &names).Error)
		require.ElementsMatch(t, []string{"Anna", "Eva", "b"}, names)
		var n int64
		require.NoError(t, g.Model(&author{}).Count(&n).Error)
		require.EqualValues(t, 26, n)
	})
}

func TestGormRowsAndRaw(t *testing.T) {
	eachGorm(t, func(t *testing.T, g gormCase) {
		require.NoError(t, g.Create([]item{{ID: 1, Name: "one"}, {ID: 2, Name: "two"}, {ID: 3, Name: "three"}}).Error)

		rows, err := g.Model(&item{}).Order("id").Rows()
		require.NoError(t, err)
		var ids []int64
		for rows.Next() {
			var one item
			require.NoError(t, g.ScanRows(rows, &one))
			ids = append(ids, one.ID)
		}
		require.NoError(t, rows.Err())
		require.NoError(t, rows.Close())
		require.Equal(t, []int64{1, 2, 3}, ids)

		var name string
		require.NoError(t, g.Raw("SELECT name FROM item WHERE id = ? AND name <> ?", 2, "x").Scan(&name).Error)
		require.Equal(t, "two", name)
		require.NoError(t, g.Raw("SELECT name FROM item WHERE id = @id", map[string]any{"id": 3}).Row().Scan(&name))
		require.Equal(t, "three", name)
		res := g.Exec("UPDATE item SET name = ? WHERE id > ?", "more", 1)
		require.NoError(t, res.Error)
		require.EqualValues(t, 2, res.RowsAffected)

		seen := 0
		require.NoError(t, g.FindInBatches(&[]item{}, 2, func(tx *gorm.DB, _ int) error {
			seen += int(tx.RowsAffected)
			return tx.Exec("UPDATE item SET name = 'batch'").Error
		}).Error)
		require.Equal(t, 3, seen)
	})
}

// Migrations are what locks are wanted for most; gorm's migrator asks with
// options of pgx among the arguments.
func TestGormMigrations(t *testing.T) {
	type migrated struct {
		ID      int64
		Name    string `gorm:"size:50;index"`
		Amount  float64
		Version int `gorm:"not null;default:1"`
	}
	eachGorm(t, func(t *testing.T, g gormCase) {
		for range 2 {
			require.NoError(t, g.AutoMigrate(&migrated{}))
		}
		m := g.Migrator()
		require.True(t, m.HasTable("migrateds"))
		require.True(t, m.HasColumn(&migrated{}, "amount"))
		types, err := m.ColumnTypes(&migrated{})
		require.NoError(t, err)
		require.Len(t, types, 4)
		one := migrated{Name: "x"}
		require.NoError(t, g.Create(&one).Error)
		require.Equal(t, 1, one.Version)
		require.NoError(t, m.DropTable(&migrated{}))
		require.False(t, m.HasTable("migrateds"))
	})
}

// db.Connection is gorm's way to one connection for several statements.
func TestGormConnection(t *testing.T) {
	eachGorm(t, func(t *testing.T, g gormCase) {
		require.NoError(t, g.Connection(func(tx *gorm.DB) error {
			first, err := gormWork{tx, g.server}.session(g.ctx)
			require.NoError(t, err)
			second, err := gormWork{tx, g.server}.session(g.ctx)
			require.NoError(t, err)
			require.Equal(t, first, second)
			if g.lock != nil {
				require.Equal(t, g.session, first)
			}
			return tx.Create(&item{ID: 1}).Error
		}))
		require.True(t, g.has(t, 1))
	})
}
