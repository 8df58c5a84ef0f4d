package main

import (
	"fmt"
	"image/color"
	"math"
	"os"
	"strconv"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// plots are drawn from the results, each into a file.
var plots = map[string]func(results, string) error{"crowd": drawCrowd, "held": drawHeld, "peers": drawPeers, "intx": drawInTx}

const (
	width  = 18 * vg.Centimeter
	height = 10 * vg.Centimeter
)

var (
	serverColours = map[string]color.Color{
		"mysql": color.RGBA{R: 0x00, G: 0x72, B: 0xb2, A: 255}, "mariadb": color.RGBA{R: 0xd5, G: 0x5e, B: 0x00, A: 255},
		"postgres": color.RGBA{R: 0x00, G: 0x9e, B: 0x73, A: 255},
	}
	barColours = []color.Color{
		color.RGBA{R: 0xbb, G: 0xbb, B: 0xbb, A: 255}, color.RGBA{R: 0x77, G: 0x77, B: 0x77, A: 255}, color.RGBA{R: 0x00, G: 0x72, B: 0xb2, A: 255},
	}
	dashed = []vg.Length{vg.Points(5), vg.Points(4)}
	dotted = []vg.Length{vg.Points(1), vg.Points(3)}
)

func newPlot(title, x, y string) *plot.Plot {
	p := plot.New()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = title, x, y
	p.Title.Padding = vg.Points(8)
	p.Legend.Padding = vg.Points(2)
	p.Legend.Left, p.Legend.Top = true, true
	for _, f := range []*font.Font{
		&p.Title.TextStyle.Font, &p.X.Label.TextStyle.Font, &p.Y.Label.TextStyle.Font,
		&p.X.Tick.Label.Font, &p.Y.Tick.Label.Font, &p.Legend.TextStyle.Font,
	} {
		f.Variant, f.Size = "Sans", vg.Points(10)
	}
	return p
}

func save(p *plot.Plot, file string) (err error) {
	c := vgsvg.New(width, height)
	p.Draw(draw.Crop(draw.New(c), 0, -vg.Points(14), 0, 0)) // the last label of x is wider than its place
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	defer func() {
		if cerr := f.Close(); err == nil {
			err = cerr
		}
	}()
	_, err = c.WriteTo(f)
	return err
}

// logarithmic makes both axes so. The values of x are labelled as they are.
func logarithmic(p *plot.Plot, xs []int) {
	p.X.Scale, p.Y.Scale = plot.LogScale{}, plot.LogScale{}
	var ticks []plot.Tick
	for _, x := range xs {
		ticks = append(ticks, plot.Tick{Value: float64(x), Label: strconv.Itoa(x)})
	}
	p.X.Tick.Marker, p.Y.Tick.Marker = plot.ConstantTicks(ticks), powers{}
	p.X.Min, p.X.Max = float64(xs[0]), float64(xs[len(xs)-1])
	p.Add(plotter.NewGrid())
}

// powers are ticks at the powers of ten.
type powers struct{}

func (powers) Ticks(low, high float64) (ticks []plot.Tick) {
	for e := math.Floor(math.Log10(low)); e <= math.Ceil(math.Log10(high)); e++ {
		v := math.Pow(10, e)
		label := fmt.Sprintf("%.0f", v)
		for _, unit := range []struct{ zeros, name string }{{"000000", " M"}, {"000", " k"}} {
			if short, ok := strings.CutSuffix(label, unit.zeros); ok {
				label = short + unit.name
			}
		}
		ticks = append(ticks, plot.Tick{Value: v, Label: label})
	}
	return ticks
}

// addLine adds what there is of a series.
func addLine(p *plot.Plot, name string, c color.Color, dashes []vg.Length, xs []int, y func(x int) float64) error {
	var points plotter.XYs
	for _, x := range xs {
		if v := y(x); v > 0 { // a logarithm has no place for others, nor for NaN
			points = append(points, plotter.XY{X: float64(x), Y: v})
		}
	}
	if len(points) == 0 {
		return nil
	}
	line, dots, err := plotter.NewLinePoints(points)
	if err != nil {
		return err
	}
	line.Color, line.Dashes, line.Width = c, dashes, vg.Points(1.8)
	dots.Color, dots.Shape, dots.Radius = c, draw.CircleGlyph{}, vg.Points(2.2)
	p.Add(line, dots)
	p.Legend.Add(name, line)
	return nil
}

func drawCrowd(r results, file string) error {
	p := newPlot("Turns a second on one lock", "goroutines that want it all the time", "turns a second")
	logarithmic(p, sizes)
	p.Y.Min, p.Y.Max, p.Legend.Top = 10, 1e6, false // the legend is below the lines
	for _, way := range []struct {
		unit, name string
		dashes     []vg.Length
	}{{"lockdb-turns/s", "lockdb", nil}, {"hand-turns/s", "by hand", dashed}} {
		for _, s := range servers {
			err := addLine(p, serverNames[s]+", "+way.name, serverColours[s], way.dashes, sizes, func(n int) float64 {
				return r.at(way.unit, "Crowd", "server="+s, "goroutines="+strconv.Itoa(n))
			})
			if err != nil {
				return err
			}
		}
	}
	return save(p, file)
}

func drawHeld(r results, file string) error {
	const server = "mysql"
	held := []int{1, 10, 100, 1000, 10_000}
	p := newPlot("Connections for many held locks (MySQL)", "locks held", "connections")
	logarithmic(p, held)
	p.Y.Min, p.Y.Max = 0.8, 5e3
	for _, way := range []struct {
		name   string
		colour color.Color
		dashes []vg.Length
	}{
		{"lockdb", serverColours["mysql"], nil},
		{"multiplexed", serverColours["postgres"], nil},
		{"lease", serverColours["mariadb"], dotted},
	} {
		name := way.name
		if name == "lockdb" {
			name = "a session each (lockdb, by hand)"
		}
		err := addLine(p, name, way.colour, way.dashes, held, func(n int) float64 {
			return r.at("conns", "Held", "server="+server, "by="+way.name, "locks="+strconv.Itoa(n))
		})
		if err != nil {
			return err
		}
	}
	return save(p, file)
}

// group is a bar for each label.
type group struct {
	name   string
	values []float64
}

func bars(p *plot.Plot, labels []string, groups []group) error {
	w := vg.Points(float64(420 / len(labels) / (len(groups) + 1)))
	for i, g := range groups {
		values := make(plotter.Values, len(g.values))
		for j, v := range g.values {
			if !math.IsNaN(v) {
				values[j] = v
			}
		}
		chart, err := plotter.NewBarChart(values, w)
		if err != nil {
			return err
		}
		chart.Color, chart.LineStyle.Width = barColours[i+len(barColours)-len(groups)], 0
		chart.Offset = w * vg.Length(float64(i)-float64(len(groups)-1)/2)
		p.Add(chart)
		p.Legend.Add(g.name, chart)
	}
	p.NominalX(labels...)
	p.Y.Min = 0
	p.Y.Max *= 1.2 // room for the legend
	return nil
}

func drawPeers(r results, file string) error {
	p := newPlot("A lock taken and released, uncontended", "", "µs")
	p.X.Tick.Label.Rotation = 0.35
	p.X.Tick.Label.XAlign, p.X.Tick.Label.YAlign = draw.XRight, draw.YTop
	groups := []group{{name: "local"}, {name: "1 ms network"}}
	var labels []string
	for _, peer := range peerNames {
		labels = append(labels, peer[1])
		for i, n := range networks {
			groups[i].values = append(groups[i].values, r.at(peer[0]+"-ns", "Peers", n, "ratio")*micro)
		}
	}
	if err := bars(p, labels, groups); err != nil {
		return err
	}
	return save(p, file)
}

func drawInTx(r results, file string) error {
	p := newPlot("A transaction with one update on a network of 1 ms", "", "ms")
	groups := []group{{name: "no lock"}, {name: "lock by hand"}, {name: "InTx"}}
	var labels []string
	for _, s := range servers {
		labels = append(labels, serverNames[s])
		for i, way := range []string{"plain", "hand", "lockdb"} {
			groups[i].values = append(groups[i].values, r.at(way+"-ns", "InTx", "server="+s, "rtt=1ms", "ratio")*1e-6)
		}
	}
	if err := bars(p, labels, groups); err != nil {
		return err
	}
	return save(p, file)
}
