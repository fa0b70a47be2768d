//! One test's private directory.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

static NEXT: AtomicU32 = AtomicU32::new(0);

/// A private directory: removed when the test has passed, kept and named when it fails.
#[derive(Debug)]
pub struct Lab {
    dir: PathBuf,
}

impl Lab {
    /// Makes the directory.
    ///
    /// # Panics
    ///
    /// If the temporary directory is not writable.
    #[must_use]
    pub fn new(name: &str) -> Self {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let dir = std::env::temp_dir().join(format!("tandem-{name}-{}-{number}", std::process::id()));
        fs::create_dir_all(&dir).expect("the temporary directory is writable");
        Self { dir }
    }

    /// Where it is.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Writes one file and returns its path.
    ///
    /// # Panics
    ///
    /// If it cannot be written.
    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.dir.join(name);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).expect("the laboratory's directory is writable");
        }
        fs::write(&path, text).expect("the laboratory's directory is writable");
        path
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("---- the laboratory's files are kept in {} ----", self.dir.display());
        } else {
            // A leftover in the temporary directory harms nobody.
            let _ = fs::remove_dir_all(&self.dir);
        }
    }
}
