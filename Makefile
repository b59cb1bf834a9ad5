# The two commands of this project:
#   make run       set up, build, and survey this machine
#   make test      set up, and check what a change can break (ten minutes)
# And for those who hand it on:
#   make test-all  set up, and run the second tier of the tests, which takes hours: see CONTRIBUTING.md
#   make static    one file that runs on any Linux of this processor; make static-arm64: on arm64
#   make deb       a Debian package
.PHONY: run build test test-all static static-arm64 deb setup setup-test setup-test-all setup-static setup-arm64 setup-deb setup-guests bench guests fuzz clean

target := $(or $(CARGO_TARGET_DIR),target)
musl := $(shell uname -m)-unknown-linux-musl
arm64 := aarch64-unknown-linux-musl
# Debian's compiler for arm64 also compiles and links for musl: Rust brings that library.
for_arm64 := CC_aarch64_unknown_linux_musl=aarch64-linux-gnu-gcc \
	CARGO_TARGET_AARCH64_UNKNOWN_LINUX_MUSL_LINKER=aarch64-linux-gnu-gcc
# Programs that are handed on have no path of this machine in them, so that they are the same wherever they are built.
cargo_home := $(or $(CARGO_HOME),$(HOME)/.cargo)
remapped := RUSTFLAGS="$(RUSTFLAGS) --remap-path-prefix=$(CURDIR)=/fathom --remap-path-prefix=$(cargo_home)=/cargo"
# cargo leaves the debug symbols of a packed build among the dependencies; some versions link them beside the program.
symbols = dwp="$$(ls -t $(1)/deps/fathom-*.dwp | head -n 1)"; cmp -s "$$dwp" $(1)/fathom.dwp || cp "$$dwp" $(1)/fathom.dwp

run: build
	$(target)/release/fathom survey /

build: setup
	@echo "building fathom; the first time takes some minutes"
	cargo build --package fathom --release --locked

test: setup-test
	tools/test

# Those of its suites that have not passed on the present tree; tools/test-all SUITE runs one.
test-all: setup-test-all
	tools/test-all

static: setup-static
	$(remapped) cargo build --package fathom --profile dist --locked --features cloud --target $(musl)
	@$(call symbols,$(target)/$(musl)/dist)
	@tools/sbom $(target)/$(musl)/dist/fathom.cdx.json cloud $(musl)
	@echo $(target)/$(musl)/dist/fathom

static-arm64: setup-arm64
	$(remapped) $(for_arm64) cargo build --package fathom --profile dist --locked --features cloud --target $(arm64)
	@$(call symbols,$(target)/$(arm64)/dist)
	@tools/sbom $(target)/$(arm64)/dist/fathom.cdx.json cloud $(arm64)
	@echo $(target)/$(arm64)/dist/fathom

deb: setup-deb
	$(remapped) cargo build --package fathom --profile dist --locked --features cloud
	@$(call symbols,$(target)/dist)
	@tools/sbom $(target)/dist/fathom.cdx.json cloud "$$(rustc -vV | sed -n 's/^host: //p')"
	tools/deb

# The benchmarks, as root; see bench/README.md.
bench: build
	bench/suite all

# Every command on the kernels that people have, in virtual machines, as root; see docs/kernels.md. It takes hours.
guests: setup-guests
	tools/test-all 'guests/*'

# Ten seconds of each fuzz target; needs a nightly toolchain and cargo-fuzz.
fuzz:
	for target in $$(cargo +nightly fuzz list); do \
		mkdir -p fuzz/corpus/$$target; \
		cargo +nightly fuzz run $$target fuzz/corpus/$$target fuzz/seeds/$$target -- -max_total_time=10 || exit 1; \
	done

setup:
	@tools/setup build

setup-test:
	@tools/setup test

setup-test-all:
	@tools/setup test-all

setup-static:
	@tools/setup static

setup-arm64:
	@tools/setup arm64

setup-deb:
	@tools/setup deb

setup-guests:
	@tools/setup guests

clean:
	cargo clean
