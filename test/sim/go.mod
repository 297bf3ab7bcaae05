module github.com/lockkeeper/lockkeeper/test/sim

go 1.26.0

replace github.com/lockkeeper/lockkeeper => ../..

require (
	github.com/anishathalye/porcupine v1.3.1
	github.com/lockkeeper/lockkeeper v0.0.0-00010101000000-000000000000
)
