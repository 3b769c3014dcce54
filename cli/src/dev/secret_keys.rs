//! The master key of `rejoin dev`: created at its first start, kept in its data directory, given to its API and
//! workers. `rejoin secrets` finds it there.
//!
//! Invariants: an existing key is never replaced, since everything encrypted with it would be lost; only its owner can
//! read the file.
use std::{
    fs,
    io::{ErrorKind, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use rejoin_secrets::keys;

const FILE: &str = "secret-keys";

/// Its path.
pub fn path(data_dir: &Path) -> PathBuf {
    data_dir.join(FILE)
}

/// Creates the file if missing. None: the settings name other keys, which the children find themselves.
///
/// # Errors
/// The directory is not writable.
pub fn ensure_there(data_dir: &Path) -> Result<Option<PathBuf>> {
    if keys::are_configured() {
        return Ok(None);
    }
    let path = path(data_dir);
    if !path.exists() {
        make(&path).with_context(|| format!("writing {} failed", path.display()))?;
    }
    Ok(Some(path))
}

fn make(path: &Path) -> Result<(), std::io::Error> {
    let new = path.with_extension(format!("new-{}", std::process::id()));
    // Left by a killed process.
    let _none = fs::remove_file(&new);
    let mut file = fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&new)?;
    writeln!(
        file,
        "# Master keys of secrets: the first one encrypts, all decrypt (`rejoin secrets --help`)."
    )?;
    writeln!(file, "{}", *keys::generate())?;
    file.sync_all()?;
    // Not a rename: of two concurrent starts, the second one's key would replace the first one's.
    let placed = match fs::hard_link(&new, path) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        placed => placed,
    };
    fs::remove_file(&new)?;
    placed
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use rejoin_secrets::MasterKeys;
    use uuid::Uuid;

    use super::*;

    #[test]
    fn the_key_is_made_once_for_its_owner_alone() {
        let dir = std::env::temp_dir().join(format!("rejoin-secret-keys-{}", Uuid::now_v7().simple()));
        fs::create_dir(&dir).unwrap();
        make(&path(&dir)).unwrap();
        let first = fs::read_to_string(path(&dir)).unwrap();
        make(&path(&dir)).unwrap();
        assert_eq!(fs::read_to_string(path(&dir)).unwrap(), first, "never replaced");
        assert!(MasterKeys::configured(Some(&path(&dir)), None).is_ok());
        assert_eq!(fs::metadata(path(&dir)).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(&dir).unwrap().count(), 1);
        fs::remove_dir_all(dir).unwrap();
    }
}
