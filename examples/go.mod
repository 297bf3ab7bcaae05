module github.com/lockkeeper/lockkeeper/examples

go 1.26.0

replace github.com/lockkeeper/lockkeeper => ..

require (
	github.com/chromedp/chromedp v0.23.0
	github.com/lockkeeper/lockkeeper v0.0.0-00010101000000-000000000000
	go.yaml.in/yaml/v3 v3.0.6
	modernc.org/sqlite v1.55.0
)

require (
	github.com/chromedp/cdproto v0.159.0 // indirect
	github.com/dustin/go-humanize v1.0.1 // indirect
	github.com/go-json-experiment/json v0.0.0-20260213210345-44df1a37e875 // indirect
	github.com/google/uuid v1.6.0 // indirect
	github.com/mattn/go-isatty v0.0.20 // indirect
	github.com/ncruces/go-strftime v1.0.0 // indirect
	github.com/remyoudompheng/bigfft v0.0.0-20230129092748-24d4a6f8daec // indirect
	golang.org/x/sys v0.49.0 // indirect
	modernc.org/libc v1.74.1 // indirect
	modernc.org/mathutil v1.7.1 // indirect
	modernc.org/memory v1.11.0 // indirect
)
