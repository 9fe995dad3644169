#!/bin/sh
# Takes what docker-compose.yml says to SeaweedFS: server -ip=NAME -ip.bind=ADDRESS -s3 -s3.config=FILE. As there, what
# begins as root gives /data to a user of its own, and goes on as that user.
set -eu
if [ "$(id -u)" = 0 ]; then
  chown seaweed:seaweed /data
  exec setpriv --reuid seaweed --regid seaweed --init-groups "$0" "$@"
fi

[ "$1" = server ]
for argument; do
  case $argument in
    -s3.config=*) config=${argument#*=} ;;
    -ip.bind=*) address=${argument#*=} ;;
  esac
done
credential() {
  python -c "import json, sys; print(json.load(open(sys.argv[1]))['identities'][0]['credentials'][0][sys.argv[2]])" "$config" "$1"
}
MINIO_ROOT_USER=$(credential accessKey)
MINIO_ROOT_PASSWORD=$(credential secretKey)
export MINIO_ROOT_USER MINIO_ROOT_PASSWORD HOME=/tmp
objects=sqlite3:///data/objects.db
[ -e /data/objects.db ] || juicefs format "$objects" store --storage file --bucket /data/objects/ --trash-days 0
exec juicefs gateway "$objects" "$address:8333" --multi-buckets --keep-etag --no-usage-report --log /tmp/gateway.log
