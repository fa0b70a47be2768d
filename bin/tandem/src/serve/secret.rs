//! The key that signs nonces and routes: from the configuration, or from a file that the first start makes.

use anyhow::{Context as _, bail};
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;
use tandem_config::{Auth, Secret};

/// The key in force.
///
/// # Errors
///
/// If the file can't be read or made, others than its owner can read it, or it has something else than a key.
pub(crate) fn obtain(auth: &Auth) -> anyhow::Result<Secret> {
    if let Some(secret) = &auth.secret {
        return Ok(secret.clone());
    }
    let path = &auth.secret_file;
    match File::open(path) {
        Ok(file) => read(file, path),
        Err(error) if error.kind() == ErrorKind::NotFound => make(path),
        Err(error) => Err(error).with_context(|| format!("reading {}", path.display())),
    }
}

/// The key before it, where one is named.
///
/// # Errors
///
/// As [`obtain`]; a file that is not there too, and a key that is the one in force.
pub(crate) fn obtain_previous(auth: &Auth, current: &Secret) -> anyhow::Result<Option<Secret>> {
    let previous = match (&auth.previous_secret, &auth.previous_secret_file) {
        (Some(secret), _) => secret.clone(),
        (None, None) => return Ok(None),
        (None, Some(path)) => {
            let file = File::open(path).with_context(|| format!("reading {}", path.display()))?;
            read(file, path)?
        }
    };
    if previous == *current {
        bail!("[auth] the previous key is the one in force; remove it, or make a new key");
    }
    Ok(Some(previous))
}

fn read(mut file: File, path: &Path) -> anyhow::Result<Secret> {
    let mode = file.metadata()?.mode();
    if mode & 0o077 != 0 {
        bail!("{} is open to others; run: chmod 600 {}", path.display(), path.display());
    }
    let mut text = String::new();
    // A little more than a key, so that a longer file is seen to be no key.
    (&mut file).take(256).read_to_string(&mut text).with_context(|| format!("reading {}", path.display()))?;
    Secret::from_hex(&text).with_context(|| {
        format!("{} is not 64 hexadecimal digits; remove it to have a new key made", path.display())
    })
}

fn make(path: &Path) -> anyhow::Result<Secret> {
    let making = || format!("making the key file {}", path.display());
    let bytes = random::<{ Secret::BYTES }>()?;
    let text: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let mut file =
        OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).with_context(making)?;
    file.write_all(text.as_bytes()).and_then(|()| file.write_all(b"\n")).with_context(making)?;
    file.sync_all().with_context(making)?;
    tracing::info!(file = %path.display(), "made a new key");
    Secret::from_hex(&text).with_context(making)
}

/// `N` octets of the system's randomness.
///
/// # Errors
///
/// If the system has none.
pub(crate) fn random<const N: usize>() -> anyhow::Result<[u8; N]> {
    let mut bytes = [0; N];
    let got = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())
        .context("reading the system's randomness")?;
    anyhow::ensure!(got == N, "the system gave too little randomness");
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;
    use tandem_config::Config;

    #[test]
    fn the_first_start_makes_a_key_that_the_second_reads_and_others_cannot() {
        let directory = std::env::temp_dir().join(format!("tandem-secret-{}", std::process::id()));
        std::fs::create_dir(&directory).expect("a fresh directory");
        let mut auth = Config::default().auth;
        auth.secret_file = directory.join("key");
        let first = obtain(&auth).expect("a key is made");
        assert_eq!(obtain(&auth).expect("the key is read"), first);
        let mode = std::fs::metadata(&auth.secret_file).expect("the file").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);

        std::fs::set_permissions(&auth.secret_file, std::fs::Permissions::from_mode(0o644)).expect("ours");
        assert!(obtain(&auth).expect_err("open to others").to_string().contains("chmod 600"));
        std::fs::set_permissions(&auth.secret_file, std::fs::Permissions::from_mode(0o600)).expect("ours");
        std::fs::write(&auth.secret_file, "not a key").expect("ours");
        assert!(obtain(&auth).expect_err("no key").to_string().contains("hexadecimal"));

        assert_eq!(obtain_previous(&auth, &first).expect("none is named"), None);
        auth.previous_secret_file = Some(directory.join("old"));
        assert!(obtain_previous(&auth, &first).expect_err("no file").to_string().contains("old"));
        let old: String = first.expose().iter().map(|byte| format!("{byte:02x}")).collect();
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(directory.join("old"))
            .expect("ours");
        file.write_all(old.as_bytes()).expect("ours");
        assert!(obtain_previous(&auth, &first).expect_err("the same").to_string().contains("in force"));
        let new = Secret::from_hex(&"ab".repeat(32)).expect("a key");
        assert_eq!(obtain_previous(&auth, &new).expect("the old key"), Some(first));
        std::fs::remove_dir_all(directory).expect("ours");
    }
}
