#!/usr/bin/env bash
# Builds the threshold engine. Works from any folder; writes only inside this one.
#   ./build.sh wasm     pkg/threshold_engine_bg.wasm, .js, .d.ts and artifact.sha256  (default)
#   ./build.sh native   pkg/threshold_engine.node (needs an ordinary cargo)
#   ./build.sh verify   builds the wasm again, elsewhere, and compares it byte for byte with pkg/
# WASM_TOOLCHAIN=auto|rustup|debian: auto takes rustup's wasm32-unknown-unknown if it is installed,
# otherwise it downloads Debian's rustc-web and its library sources and compiles std itself.
# Needs: cargo registry access; for debian: apt-get, dpkg-deb, cc. Nothing is installed system-wide.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
crate=$here/crate pkg=$here/pkg
cd "$crate"
cache=$here/.cache
target=wasm32-unknown-unknown
what=${1:-wasm}
tool=${WASM_TOOLCHAIN:-auto}
jobs=${CARGO_BUILD_JOBS:-$(nproc)}
export CARGO_HOME=${CARGO_HOME:-$HOME/.cargo} CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$crate/target} CARGO_BUILD_JOBS=$jobs
unset RUSTFLAGS CARGO_ENCODED_RUSTFLAGS
export SOURCE_DATE_EPOCH=0

debian_packages="rustc-web libstd-rust-web-1.96 libstd-rust-web-dev rust-web-src libllvm22 lld-22
cargo-web libgit2-1.5 libhttp-parser2.9 libmbedcrypto7 libmbedtls14 libmbedx509-1 libssh2-1"

debian_toolchain() {
    root=$cache/debian
    if [ ! -e "$root/.complete" ]; then
        rm -rf "$root" && mkdir -p "$cache/deb" "$root"
        # shellcheck disable=SC2086
        (cd "$cache/deb" && apt-get -qq -o APT::Sandbox::User="$(id -un)" download $debian_packages)
        for d in "$cache"/deb/*.deb; do dpkg-deb -x "$d" "$root"; done
        touch "$root/.complete"
    fi
    mkdir -p "$cache/bin"
    local libs=$root/usr/lib/$(uname -m)-linux-gnu:$root/usr/lib/llvm-22/lib t
    for t in rustc:usr/bin/rustc rustdoc:usr/bin/rustdoc cargo:usr/bin/cargo rust-lld:usr/lib/llvm-22/bin/lld; do
        printf '#!/bin/sh\nLD_LIBRARY_PATH="%s" exec "%s" "$@"\n' "$libs" "$root/${t#*:}" > "$cache/bin/${t%%:*}"
        chmod +x "$cache/bin/${t%%:*}"
    done
    cargo=$cache/bin/cargo
    export RUSTC=$cache/bin/rustc RUSTDOC=$cache/bin/rustdoc RUSTC_BOOTSTRAP=1
    export CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER=$cache/bin/rust-lld
    # std without its backtrace feature: a trap carries no symbols anyway
    std="-Z build-std=std,panic_abort -Z build-std-features="
    flags="-Zlocation-detail=none --remap-path-prefix=$root/usr/lib/rustlib/src/rust=/std"
}

remap() {
    local d
    for d in "$CARGO_HOME"/registry/src/*/; do printf -- '--remap-path-prefix=%s=/crates ' "${d%/}"; done
    printf -- '--remap-path-prefix=%s=/engine' "$crate"
}

no_paths() {
    if grep -aqF -e "$here" -e "$HOME/" -e /tmp/ -e /home/ -e registry/src "$1"; then echo "machine path inside $1" >&2; exit 1; fi
}

wasm() {
    if [ "$tool" = auto ]; then
        if [ -d "$(rustc --print target-libdir --target $target 2>/dev/null || true)" ]; then tool=rustup; else tool=debian; fi
    fi
    cargo=cargo std="" flags=""
    [ "$tool" = debian ] && debian_toolchain
    echo "toolchain: $tool, $(${RUSTC:-rustc} --version), $("$cargo" --version)"
    "$cargo" fetch --locked --quiet
    # 32-bit field arithmetic: wasm has no 64x64->128 multiply (crate cpubits documents this switch)
    flags="$flags --cfg cpubits=\"32\" -Ctarget-feature=+simd128 $(remap) ${ENGINE_RUSTFLAGS:-}"
    # shellcheck disable=SC2086
    CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_RUSTFLAGS=$flags \
        "$cargo" build --locked --profile wasm -p threshold_engine --target $target $std
    # host tool: the wasm-bindgen step, pinned by Cargo.lock
    "$cargo" build --locked --profile tool -p bindgen
    mkdir -p "$1"
    "$CARGO_TARGET_DIR/tool/bindgen" "$CARGO_TARGET_DIR/$target/wasm/threshold_engine.wasm" "$1"
    local w=$1/threshold_engine_bg.wasm
    no_paths "$w"
    echo "size $(wc -c < "$w"), gzip -9 $(gzip -9nc "$w" | wc -c)"
}

sums() { (cd "$1" && sha256sum threshold_engine_bg.wasm threshold_engine.js); }

verify() {
    local again=$CARGO_TARGET_DIR/again f
    wasm "$again"
    for f in threshold_engine_bg.wasm threshold_engine.js threshold_engine.d.ts; do cmp "$again/$f" "$pkg/$f"; done
    sums "$again" | cmp - "$here/artifact.sha256"
    echo "identical to the artefact in pkg/ and to artifact.sha256"
}

native() {
    cargo fetch --locked --quiet
    RUSTFLAGS=$(remap) cargo build --locked --release -p threshold_engine_napi
    mkdir -p "$pkg"
    for f in libthreshold_engine_napi.so libthreshold_engine_napi.dylib threshold_engine_napi.dll; do
        [ -e "$CARGO_TARGET_DIR/release/$f" ] && cp "$CARGO_TARGET_DIR/release/$f" "$pkg/threshold_engine.node"
    done
    no_paths "$pkg/threshold_engine.node"
    echo "native: $(wc -c < "$pkg/threshold_engine.node") bytes"
}

case $what in
    wasm) wasm "$pkg" && sums "$pkg" | tee "$here/artifact.sha256" ;;
    native) native ;;
    verify) verify ;;
    *) sed -n '2,9p' "$0" >&2; exit 2 ;;
esac
