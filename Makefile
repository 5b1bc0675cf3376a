# What can be done here. `make help` lists it.
#
# rustup or a distribution's Rust must be there; everything else that is missing is installed with apt-get. Nothing is
# fetched but packages: crates from crates.io, tools from the distribution.

CARGO ?= cargo
.DEFAULT_GOAL := help
.PHONY: help setup rust tools tracefs bucket prometheus node page dist demo cluster-demo top test test-page test-rig lint bench screenshots soak

# Watching a host's guests is root's.
AS_ROOT = $(if $(filter 0,$(shell id -u)),,--config 'target."cfg(unix)".runner = "sudo"')

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' Makefile

setup: rust tools tracefs bucket prometheus node ## Install what is missing of the tools that test and bench use
	@$(CARGO) fetch --quiet --locked
	@echo "setup: everything is there"

# The oldest Rust that will do is in Cargo.toml.
rust:
	@need=$$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml); \
	have=$$(rustc --version 2>/dev/null | cut -d ' ' -f 2); \
	if [ -z "$$have" ] || ! command -v $(CARGO) >/dev/null; then \
		echo "setup: Rust is missing: install $$need or later, see https://rustup.rs" >&2; exit 1; fi; \
	if [ "$$(printf '%s\n' "$$need" "$$have" | sort -V | head -n 1)" != "$$need" ]; then \
		echo "setup: Rust $$have is too old: $$need or later is needed, try 'rustup update'" >&2; exit 1; fi
	@command -v cc >/dev/null || .ci/install cc

tools:
	@.ci/install cc git perf python3-venv qemu-system-x86_64 strip tmux trace-cmd xz zstd chromium clippy rustfmt

# Where tests read tracepoints and KVM's own counters. Mounting is root's; where nobody may, tests that need it say so.
tracefs:
	@[ "$$(id -u)" = 0 ] || exit 0; \
	[ -e /sys/kernel/tracing/events ] || mount -t tracefs nodev /sys/kernel/tracing || true; \
	[ -e /sys/kernel/debug/kvm ] || mount -t debugfs nodev /sys/kernel/debug || true

# A server that speaks S3, for tests of stores in buckets.
bucket: target/moto/bin/moto_server
target/moto/bin/moto_server:
	@echo "setup: installing moto"
	@python3 -m venv target/moto && \
	target/moto/bin/pip install --quiet --disable-pip-version-check 'moto[s3]==5.2.5' flask flask-cors || \
	echo "setup: moto could not be installed; going on without it; the tests of stores in buckets need it" >&2

# Unpacked and not installed: Debian's package would run it as a service.
prometheus: target/prometheus/usr/bin/promtool
target/prometheus/usr/bin/promtool:
	@echo "setup: unpacking Debian's prometheus"
	@mkdir -p target/prometheus && cd target/prometheus && \
	{ apt-get download -qq prometheus || { apt-get update -qq && apt-get download -qq prometheus; }; } >/dev/null 2>&1 && \
	dpkg-deb -x prometheus_*.deb . && rm prometheus_*.deb || \
	echo "setup: prometheus is missing; going on without it; the tests of rules and alerts need it" >&2

# What Vite needs; web/package.json says it, too.
node:
	@node -e 'const [a, b] = process.versions.node.split(".").map(Number); process.exit(a > 22 || (a === 22 && b >= 12) || (a === 20 && b >= 19) ? 0 : 1)' 2>/dev/null \
		|| { echo "setup: Node 20.19 or later (or 22.12) is needed for pages, see https://nodejs.org" >&2; exit 1; }
	@command -v npm >/dev/null || { echo "setup: npm is missing; it comes with Node" >&2; exit 1; }

page: web/dist/page.html ## Build the front end of HTML pages; cargo then puts it into the command

web/node_modules/.package-lock.json: web/package-lock.json | node
	cd web && npm ci --no-audit --no-fund --loglevel=error

web/dist/page.html: web/node_modules/.package-lock.json $(wildcard web/src/*) web/vite.config.js web/tsconfig.json
	cd web && npm run --silent build

dist: rust page ## Make what people install, in dist/: `cargo xtask dist --check` then tries it, as root
	@.ci/install cc dpkg-deb python3-venv
	$(CARGO) xtask dist

demo: rust page ## Account for the exits of a recorded guest: as text, and as a page
	$(CARGO) build --release --quiet --locked --package exitscope
	$(CARGO) run --release --quiet --locked --package exitscope -- report corpus/x86-svm/t2.data.gz
	$(CARGO) run --release --quiet --locked --package exitscope -- report corpus/x86-svm/t2.data.gz --html demo.html

cluster-demo: rust ## Have a scheduler and two executors on this machine compare three hosts' recordings
	$(CARGO) build --quiet --locked --package exitscope --features cluster
	contrib/cluster-demo

top: rust ## Build the command, and watch this host's guests with it, as root
	$(CARGO) run --release --quiet --locked --package exitscope $(AS_ROOT) -- top

test: setup page ## Run every test and check, and say how long each part takes
	PATH="$$PATH:$(CURDIR)/target/prometheus/usr/bin" $(CARGO) xtask ci

test-page: page ## Test the page in Chromium; also a part of `make test`
	$(CARGO) build --quiet --locked --package exitscope --package tiny-guest
	cd web && EXITSCOPE_WITHOUT_SQL=1 npm test --silent

screenshots: page ## Draw docs/images anew; builds what asks a store, which takes minutes
	$(CARGO) build --quiet --locked --package exitscope --features sql
	cd web && npm run --silent screenshots

test-rig: setup ## Run real KVM on SVM in an emulated machine; also a part of `make test`
	$(CARGO) xtask rig x86-svm

lint: ## Check formatting, clippy and the tree
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --all-features --quiet --locked -- -D warnings
	$(CARGO) xtask tidy

bench: setup page ## Measure against perf, trace-cmd, xenalyze, nexosim and SimPy; writes docs/benchmarks.md
	@.ci/install bpftrace xenalyze
	$(CARGO) xtask bench

soak: setup ## Run the exporter for ten minutes while VMs start and stop
	$(CARGO) xtask soak
