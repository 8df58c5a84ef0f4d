package sqlscan

var Harmless = harmless
