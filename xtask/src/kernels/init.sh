#!/bin/sh
# The first process of a guest: mounts what the tests look at, runs them, says how it went, and switches off.
# Every line of its own begins with @@.
/bin/busybox --install -s /bin
export PATH=/bin HOME=/ RUST_BACKTRACE=0
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
mount -t tmpfs tmpfs /tmp
[ -d /sys/kernel/tracing ] && mount -t tracefs tracefs /sys/kernel/tracing
. /guest.env
mkdir -p "$TARGET_TMPDIR"
echo 3 > /proc/sys/kernel/printk
echo "@@ kernel $(uname -r)"

suite() {
    name=$1
    shift
    echo "@@ begin $name"
    /guest-tests --test-threads=1 --include-ignored "$@" 2>/tmp/err
    status=$?
    sed 's/^/@@ err /' /tmp/err
    echo "@@ end $name $status"
}

if [ -n "$DOCTOR" ]; then
    echo "@@ begin doctor"
    /gpu-ledger doctor 2>&1 | sed 's/^/@@ doctor /'
    echo "@@ end doctor 0"
fi

# A host on which both versions of control groups are in use.
mount -t tmpfs cgroup /sys/fs/cgroup
for controller in memory pids freezer devices cpuset; do
    mkdir "/sys/fs/cgroup/$controller"
    mount -t cgroup -o "$controller" cgroup "/sys/fs/cgroup/$controller" 2>/dev/null || rmdir "/sys/fs/cgroup/$controller"
done
mkdir /sys/fs/cgroup/unified
mount -t cgroup2 cgroup2 /sys/fs/cgroup/unified
suite hybrid

# And one that has version 2 alone.
for place in /sys/fs/cgroup/*; do
    umount "$place"
done
umount /sys/fs/cgroup
mount -t cgroup2 cgroup2 /sys/fs/cgroup
suite v2 cgroups::

echo "@@ off"
poweroff -f
