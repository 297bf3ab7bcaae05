#!/bin/sh
# Runs packages of tests with the ZooKeeper, Curator and kazoo of a newer Debian release than this machine has:
#
#	newer.sh DIR PACKAGE...
#
# The release is installed in DIR, once. It needs root and debootstrap. What it mounts is seen by its own processes alone.
set -eu
dir=$1
shift
release=trixie
if [ ! -e "$dir/installed" ]; then
	mkdir -p "$dir"
	debootstrap --variant=minbase "$release" "$dir"
	printf '#!/bin/sh\nexit 101\n' >"$dir/usr/sbin/policy-rc.d" # no package starts a server
	chmod +x "$dir/usr/sbin/policy-rc.d"
	touch "$dir/installed"
fi
checkout=$(cd "$(dirname "$0")/../.." && pwd)
mkdir -p "$dir/checkout" "$dir/go" "$dir/modules" "$dir/cache"
export dir checkout GOROOT="$(go env GOROOT)" GOMODCACHE="$(go env GOMODCACHE)" GOCACHE="$(go env GOCACHE)"
exec unshare --mount sh -eu -c '
	mount --bind "$checkout" "$dir/checkout"
	mount --bind "$GOROOT" "$dir/go"
	mount --bind "$GOMODCACHE" "$dir/modules"
	mount --bind "$GOCACHE" "$dir/cache"
	mount -t proc proc "$dir/proc"
	mount --rbind /dev "$dir/dev"
	mount --rbind /sys "$dir/sys"
	exec chroot "$dir" /usr/bin/env -i PATH=/go/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root DEBIAN_FRONTEND=noninteractive \
		GOROOT=/go GOMODCACHE=/modules GOCACHE=/cache GOTOOLCHAIN=local sh -eu -c "
		apt-get install -y --no-install-recommends ca-certificates git make procps >/dev/null
		make -C /checkout packages
		cd /checkout/test/interop
		exec go test -count=1 -p 2 -timeout 30m \"\$@\"" sh "$@"
' sh "$@"
