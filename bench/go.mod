module github.com/lockkeeper/lockkeeper/bench

go 1.26.0

replace (
	github.com/lockkeeper/lockkeeper => ..
	github.com/lockkeeper/lockkeeper/test/interop => ../test/interop
)

require (
	github.com/go-zookeeper/zk v1.0.4
	github.com/lockkeeper/lockkeeper/test/interop v0.0.0-00010101000000-000000000000
)
