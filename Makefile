# What people type. The work is in tools/ and CMakeLists.txt; `make help` lists it.
.DEFAULT_GOAL := all
.PHONY: all help deps demo demo-cluster wheel check check-clients bench bench-guard s3-table soak plug fill lint format fuzz sim sim-cluster install clean clean-room check-aarch64

SEEDS ?= 100
T ?= 60
PREFIX ?= /usr/local

all: ## build build/forebay
	@tools/build.sh rel

deps: ## install the packages that building needs
	@tools/deps.sh build

demo: ## train a model through Forebay: cold epoch, local epochs, figures side by side
	@tools/demo.sh $(if $(KEEP),--keep)

demo-cluster: ## one etcd and three nodes on this machine: write, read, kill one, bring it back; under 3 minutes
	@tools/demo_cluster.sh

check: ## everything that is tested: units, threads, simulator, fuzz, real clients
	@tools/check.sh

bench: ## measure beside nginx and a bare loop: ROW=get-4k for one; ARGS= for tools/bench.py
	@tools/deps.sh build python bench
	@tools/venv.sh check
	@tools/unpack.sh nginx
	@tools/build.sh rel all bench_tools
	@.venv/bin/python tools/bench.py $(ROW) $(ARGS)

bench-guard: ## instructions a request, held against tools/bench/guard.json: ROW=, UPDATE=1 renews it, BASE=COMMIT compares with that
	@tools/deps.sh build guard
	@tools/build.sh rel forebay
	@python3 tools/bench/guard.py $(if $(UPDATE),--update) $(if $(BASE),--base $(BASE)) $(ROW)

s3-table: ## every S3 operation on Forebay and on SeaweedFS, side by side
	@tools/deps.sh build python check
	@tools/venv.sh check
	@tools/build.sh rel forebay
	@.venv/bin/python tools/s3-table.py

soak: ## hours of seeds, kills and power cuts, a line for each part; broken off it goes on where it was. PART= (list: which) SEEDS= (100; 10,000 before a release) FROM= (1) KILLS= (100) ACKS= (50,000) CUTS= (40) FRESH=1
	@tools/soak.sh $(SEEDS) $(PART)

plug: ## pull the plug under a training job; what is said stays in build/plug.log
	@tools/deps.sh build python demo check
	@tools/venv.sh check
	@tools/build.sh rel forebay powercut
	@.venv/bin/python tools/plug.py

fill: ## fill the disk under a training job; what is said stays in build/fill.log
	@tools/deps.sh build python demo check
	@tools/venv.sh check
	@tools/build.sh rel forebay powercut
	@.venv/bin/python tools/fill.py

check-clients: ## suites of the clients people use, each installed where it can be: SDKs, minio, s3fs, pyarrow, deltalake, rclone, ...
	@tools/check.sh clients

lint: ## format and static analysis
	@tools/lint.sh

format: ## rewrite our C files in the project's format
	@git ls-files '*.c' '*.h' | xargs clang-format -i

fuzz: ## T= seconds (60) of each fuzz target; FUZZ=name for one
	@tools/fuzz.sh $(T) $(FUZZ)

sim: ## simulated power cuts: SEEDS= how many (100), SEED= just that one
	@tools/sim.sh 'sim_*' $(SEEDS) $(SEED)

sim-cluster: ## simulated clusters: SEEDS= how many (100), SEED= just that one
	@tools/sim.sh 'sim_cluster_*' $(SEEDS) $(SEED)

install: all ## DESTDIR= PREFIX= (/usr/local)
	@DESTDIR=$(DESTDIR) cmake --install build --prefix $(PREFIX)

wheel: ## the Python package, with libforebay in it: build/wheel/*.whl
	@tools/build.sh rel libforebay
	@python3 python/build_backend.py build/wheel

clean-room: ## `make demo` and `make check` in a fresh Debian chroot (root)
	@tools/clean-room.sh

check-aarch64: ## base, wire and the context switch for aarch64, under qemu
	@tools/check-aarch64.sh

clean: ## remove what was built
	@rm -rf build .demo

help: ## this list
	@sed -n 's/^\([a-z0-9-]*\):[^#]*## \(.*\)/  make \1\t\2/p' Makefile | expand -t 26
