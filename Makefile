# Tandem's commands. `make help` lists them.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.NOTPARALLEL:
.DELETE_ON_ERROR:

export CARGO_TARGET_DIR ?= $(CURDIR)/target
export PATH := $(HOME)/.cargo/bin:$(PATH)

CARGO ?= cargo
# The tools of `make check` and `make fuzz`: pinned, built once, kept in ~/.cargo/bin.
CARGO_DENY := 0.20.2
TYPOS := 1.52.0
CARGO_FUZZ := 0.13.2
# What each `make` target needs from Debian.
# clang and libbpf-dev compile the program by which the kernel steers calls to their shards.
BUILD_PACKAGES := gcc libc6-dev make clang libbpf-dev
TEST_PACKAGES := sip-tester kamailio sipsak baresip-core linphone-cli bind9
BENCH_PACKAGES := kamailio util-linux procps
# `make fuzz` gives each target this long.
FUZZ_SECONDS ?= 30
# `make bench BENCH="--quick --only proxy200"`; see `make bench BENCH=--help`.
BENCH ?=
# `make soak SOAK="--calls 1000000"`; see `make soak SOAK=--help`.
SOAK ?=
# Where `make run` keeps its users, bindings and key.
RUN_DIR ?= $(CURDIR)/out/run

# Installs what of $(1) is missing, and says nothing when nothing is. Daemons it brings are not started: the tests
# start their own, on free ports.
define install_packages
	@missing=""; \
	for package in $(1); do \
		dpkg-query -W -f='$${db:Status-Status}' $$package 2>/dev/null | grep -qx installed || missing="$$missing $$package"; \
	done; \
	if [ -n "$$missing" ]; then \
		command -v apt-get >/dev/null || { echo "missing:$$missing; install what your system calls them"; exit 1; }; \
		sudo=""; [ "$$(id -u)" = 0 ] || sudo=sudo; \
		echo "installing:$$missing"; \
		$$sudo apt-get update -qq; \
		$$sudo env DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 apt-get install -y -qq --no-install-recommends $$missing; \
	fi
endef

# Installs version $(2) of crate $(1), whose program is $(3), unless it is there.
define install_tool
	@if ! $(3) --version 2>/dev/null | grep -qF ' $(2)'; then \
		echo "installing: $(1) $(2)"; \
		env -u CARGO_TARGET_DIR $(CARGO) install --quiet --locked --debug --force --version $(2) $(1); \
	fi
endef

.PHONY: help
help: ## Lists these targets.
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-17s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

.PHONY: run
run: build ## Builds and starts a node on loopback, ready for a first call. Ctrl-C ends it.
	@mkdir -p $(RUN_DIR)
	@[ -e $(RUN_DIR)/tandem.toml ] || printf '%s\n' \
		'# Debian 12'"'"'s baresip, SIPp and sipsak give up at a SHA-256 challenge, though MD5 is offered after it.' \
		'# Remove these lines if your phones know better.' \
		'[auth]' 'algorithms = ["MD5"]' > $(RUN_DIR)/tandem.toml
	@cd $(RUN_DIR) && exec "$(CARGO_TARGET_DIR)/release/tandem" serve --newcomer

.PHONY: build
build: setup ## Builds the release binary, target/release/tandem.
	$(CARGO) build --release --locked -p tandem

.PHONY: test
test: setup setup-test ## Runs every test: unit, property, simulation, and interop with real peers.
	@mkdir -p "$(CARGO_TARGET_DIR)"
	$(CARGO) build --locked -p tandem
	$(CARGO) test --locked --workspace --no-fail-fast 2>&1 | tee "$(CARGO_TARGET_DIR)/test.log"
	@awk '/^test result:/ { suites++; passed += $$4; failed += $$6; ignored += $$8 } \
		END { printf "test result: %s. %d passed; %d failed; %d ignored; in %d suites\n", \
			failed ? "FAILED" : "ok", passed, failed, ignored, suites; exit failed > 0 || passed == 0 }' \
		"$(CARGO_TARGET_DIR)/test.log"

.PHONY: check
check: lint test ## What CI runs: lint, then test.

.PHONY: lint
lint: setup setup-check ## Formatting, clippy, documentation, licences, spelling, tidiness.
	$(CARGO) fmt --all --check
	$(CARGO) run --locked --quiet -p xtask -- tidy
	typos
	$(CARGO) deny --locked --log-level error check bans licenses sources
	$(CARGO) clippy --locked --workspace --all-targets -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --locked --workspace --no-deps --document-private-items

.PHONY: advisories
advisories: setup-check ## Asks the RustSec database about every dependency (fetches it).
	$(CARGO) deny --locked check advisories

.PHONY: bench
bench: build setup-bench ## Measures the node beside Kamailio and a bare forwarder; BENCH=--quick for minutes, not an hour.
	$(CARGO) build --release --locked -p tandem-bench
	"$(CARGO_TARGET_DIR)/release/tandem-bench" $(BENCH)

.PHONY: demo
demo: build setup-test ## Two phones register at a node and call each other; shows each message as it passes.
	$(CARGO) build --locked --quiet -p tandem-interop
	@TANDEM_BIN="$(CARGO_TARGET_DIR)/release/tandem" "$(CARGO_TARGET_DIR)/debug/tandem-demo"

.PHONY: soak
soak: build setup-test ## Calls through a balancer with loss, cancels, killed destinations; SOAK="--calls 1000000 --rate 1500".
	$(CARGO) build --release --locked -p tandem-interop
	"$(CARGO_TARGET_DIR)/release/tandem-soak" $(SOAK)

.PHONY: interop-kamailio
interop-kamailio: setup-test ## Runs the interop tests with Kamailio in the node's place: are the tests right?
	TANDEM_SUBJECT=kamailio $(CARGO) test --locked -p tandem-interop

.PHONY: fuzz
fuzz: setup setup-fuzz ## Fuzzes every target for FUZZ_SECONDS (30); finds land in fuzz/artifacts.
	@for target in $(basename $(notdir $(wildcard fuzz/fuzz_targets/*.rs))); do \
		echo "fuzzing: $$target"; \
		mkdir -p fuzz/corpus/$$target fuzz/seeds/$$target; \
		$(CARGO) fuzz run $$target --sanitizer none fuzz/corpus/$$target fuzz/seeds/$$target -- \
			-dict=fuzz/sip.dict -max_total_time=$(FUZZ_SECONDS) -print_final_stats=1; \
	done

.PHONY: setup
setup: ## Installs what the build needs; quiet when it is there.
	$(call install_packages,$(BUILD_PACKAGES))
	@command -v $(CARGO) >/dev/null || { echo "cargo is missing: install Rust from https://rustup.rs"; exit 1; }

.PHONY: setup-test
setup-test: ## Installs the peers that tests talk to: SIPp, Kamailio, sipsak, baresip, linphone, BIND.
	$(call install_packages,$(TEST_PACKAGES))

.PHONY: setup-bench
setup-bench: ## Installs what the benches measure against.
	$(call install_packages,$(BENCH_PACKAGES))

.PHONY: setup-fuzz
setup-fuzz: setup ## Installs cargo-fuzz and a C++ compiler for its engine.
	$(call install_packages,g++)
	$(call install_tool,cargo-fuzz,$(CARGO_FUZZ),cargo-fuzz)

.PHONY: setup-check
setup-check: setup ## Installs cargo-deny and typos.
	$(call install_tool,cargo-deny,$(CARGO_DENY),cargo-deny)
	$(call install_tool,typos-cli,$(TYPOS),typos)

.PHONY: clean
clean: ## Removes everything that was built.
	$(CARGO) clean
