//! Compiles the kernel's half of the steering where clang and libbpf's headers are; else it is left out.

use std::env;
use std::path::PathBuf;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=bpf/steer.bpf.c");
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-check-cfg=cfg(steer_bpf)");
    let Some(out) = env::var_os("OUT_DIR") else { return };
    let arch = env::var("CARGO_CFG_TARGET_ARCH").unwrap_or_default();
    if env::var("CARGO_CFG_TARGET_ENDIAN").as_deref() != Ok("little") {
        return; // the program reads words as SipHash wants them
    }
    let object = PathBuf::from(out).join("steer.o");
    let result = Command::new("clang")
        .args(["-O2", "-g", "-target", "bpf", "-mcpu=v3", "-Wall", "-c", "bpf/steer.bpf.c"])
        .arg(format!("-I/usr/include/{arch}-linux-gnu"))
        .arg("-o")
        .arg(&object)
        .output();
    match result {
        Ok(output) if output.status.success() => println!("cargo::rustc-cfg=steer_bpf"),
        Ok(output) => {
            let complaint = String::from_utf8_lossy(&output.stderr);
            let first = complaint.lines().next().unwrap_or_default();
            println!("cargo::warning=kernel steering left out: clang says: {first}");
        }
        Err(_) => {} // no clang
    }
}
