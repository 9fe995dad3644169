#!/bin/sh
# Installs the servers of installed_peers.py, each in an environment of its own outside the repository:
#
#     benchmarks/serving/install_peers.sh [NAME ...]
#
# PEERS says where, else ~/.cache/tracehouse-peers. PYTHON makes the environments, and must be 3.11. The Python within
# Triton loads the standard library of PYTHON_OF_PYTRITON, which may not be newer than it: 3.11.2 is right, 3.11.7 is
# not. TorchServe needs Java 11 or later on the PATH. Each environment takes about a gigabyte.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
place=${PEERS:-$HOME/.cache/tracehouse-peers}
python=${PYTHON:-python3.11}
torch=${TORCH:-2.13.0}

mkdir -p "$place"
for name in ${*:-mosec pytriton torchserve mlserver litserve bentoml ray}; do
    maker=$python
    [ "$name" = pytriton ] && maker=${PYTHON_OF_PYTRITON:-$python}
    rm -rf "${place:?}/$name"
    "$maker" -m venv --without-pip "$place/$name"
    "$python" -m pip --python "$place/$name/bin/python" install --quiet "torch==$torch" \
        --requirement "$here/requirements/$name.txt"
    echo "$name is installed in $place/$name"
done
