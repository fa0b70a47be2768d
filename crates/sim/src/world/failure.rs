//! What a scenario that fails leaves behind: a capture, what the telephones saw, and how to repeat it.

use std::path::PathBuf;
use std::{env, fs, thread};

use super::World;
use crate::pcap::capture;

impl World {
    fn write_capture(&self) -> std::io::Result<PathBuf> {
        let target = env::var_os("CARGO_TARGET_DIR").map_or_else(
            || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../target")),
            PathBuf::from,
        );
        let directory = target.join("sim");
        fs::create_dir_all(&directory)?;
        let scenario = thread::current().name().unwrap_or("scenario").replace("::", "-");
        let path = directory.join(format!("{scenario}-{}.pcap", self.seed));
        fs::write(&path, capture(self.captured.iter()))?;
        Ok(path)
    }
}

impl Drop for World {
    /// A scenario that fails leaves a capture and says how to repeat it.
    fn drop(&mut self) {
        if !thread::panicking() || self.is_finished {
            return;
        }
        eprintln!("seed {} failed at step {}, {:?}", self.seed, self.steps, self.now);
        eprintln!("once more: TANDEM_SEED={} cargo test -p tandem-sim", self.seed);
        match self.write_capture() {
            Ok(path) => eprintln!("capture: {}", path.display()),
            Err(error) => eprintln!("no capture: {error}"),
        }
        for phone in &self.phones {
            eprintln!("{}", phone.name);
            for (at, event) in &phone.log {
                let text = format!("{event:?}");
                eprintln!("  {at:?} {}", text.get(..text.len().min(110)).unwrap_or_default());
            }
        }
    }
}
