# What can be done here. `make help` lists it.
#
# rustup or a distribution's Rust must be there; everything else that is missing is installed with apt-get. Nothing is
# fetched but packages: crates from crates.io, tools from the distribution.

CARGO ?= cargo
.DEFAULT_GOAL := help
.PHONY: help setup rust tools demo test test-rig lint bench soak

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' Makefile

setup: rust tools ## Install what is missing of the tools that test and bench use
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
	@.ci/install cc git perf python3-venv qemu-system-x86_64 strip tmux trace-cmd xz zstd clippy rustfmt

demo: rust ## Account for the exits of a recorded guest
	$(CARGO) build --release --quiet --locked --package exitscope
	$(CARGO) run --release --quiet --locked --package exitscope -- report corpus/x86-svm/t2.data.gz

test: setup lint ## Run every test and check
	$(CARGO) test --workspace --quiet --locked
	$(CARGO) xtask sanitize
	$(CARGO) xtask fuzz
	$(CARGO) xtask rig x86-svm

test-rig: setup ## Run real KVM on SVM in an emulated machine; also a part of `make test`
	$(CARGO) xtask rig x86-svm

lint: ## Check formatting, clippy and the tree
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --quiet --locked -- -D warnings
	$(CARGO) xtask tidy

bench: setup ## Measure against perf, trace-cmd, xenalyze, nexosim and SimPy; writes docs/benchmarks.md
	@.ci/install bpftrace xenalyze
	$(CARGO) xtask bench

soak: setup ## Run the exporter for ten minutes while VMs start and stop
	$(CARGO) xtask soak
