#!/usr/bin/env bash
# Completes the root file system of the container image: image-files.sh ROOT BINARY
# It gets the libraries that the binary links to, the certificates of public authorities, a user of its own, and /tmp.
# Called by the Dockerfile, in its build stage.
set -euo pipefail

root=$1
binary=$2

# The libraries, and the dynamic loader, under the names by which they are looked for.
ldd "$binary" | grep -o '/[^ ]*' | sort -u | while read -r library; do
    install -D -m 755 "$(readlink -f "$library")" "$root$library"
done
# Their licences, as Debian has them.
for package in libc6 libgcc-s1 ca-certificates; do
    if [ -f "/usr/share/doc/$package/copyright" ]; then
        install -D -m 644 "$(readlink -f "/usr/share/doc/$package/copyright")" "$root/usr/share/doc/$package/copyright"
    fi
done
install -D -m 644 /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/ca-certificates.crt"
install -D -m 644 LICENSE "$root/usr/share/doc/rejoin/LICENSE"
printf 'root:x:0:0:root:/root:/sbin/nologin\nrejoin:x:10001:10001:rejoin:/tmp:/sbin/nologin\n' >"$root/etc/passwd"
printf 'root:x:0:\nrejoin:x:10001:\n' >"$root/etc/group"
# Names are looked up in /etc/hosts first, then by DNS.
printf 'hosts: files dns\n' >"$root/etc/nsswitch.conf"
mkdir -p "$root/tmp"
chmod 1777 "$root/tmp"
