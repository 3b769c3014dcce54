//! Master keys, which encrypt the data keys of secrets. They come from the settings, as `id:base64`; the first one
//! encrypts, all decrypt. Loaded by `rejoin secrets` and every process that decrypts secrets.
//!
//! Invariant: neither errors nor debug output contain key material.

use std::ffi::OsString;
use std::fmt;
use std::io::Read;
use std::path::{Path, PathBuf};

use aws_lc_rs::aead::RandomizedNonceKey;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use clap::Args;
use zeroize::Zeroizing;

use super::envelope::{KEY_BYTES, cipher};

/// The variable with the keys themselves. There is no flag: every user of a machine can see all command lines.
const VARIABLE: &str = "REJOIN_SECRET_KEYS";
/// Maximum length of a key's id, in characters.
const ID_MAX_CHARS: usize = 32;
/// Maximum number of configured keys: one, and another during rotation; more are forgotten old ones.
const MAX_KEYS: usize = 32;
/// Maximum size of the file, in bytes.
const FILE_MAX_BYTES: u64 = 64 * 1024;

/// Where the master keys are.
#[derive(Debug, Clone, Default, Args)]
pub struct SecretKeyArgs {
    /// File with the master keys of secrets, one `id:base64` per line; the first key encrypts, all decrypt
    #[arg(long, env = "REJOIN_SECRET_KEYS_FILE", value_name = "FILE")]
    pub secret_keys_file: Option<OsString>,
}

impl SecretKeyArgs {
    /// The file, if configured. (An empty variable counts as absent.)
    pub fn file(&self) -> Option<PathBuf> {
        self.secret_keys_file
            .as_ref()
            .filter(|name| !name.is_empty())
            .map(PathBuf::from)
    }

    /// Loads the keys, if the settings name any.
    ///
    /// # Errors
    /// There are both, or they can't be read.
    pub fn load_if_configured(&self) -> Result<Option<MasterKeys>, KeyError> {
        if self.file().is_some() || are_configured() {
            self.load().map(Some)
        } else {
            Ok(None)
        }
    }

    /// Loads the keys from the file or the variable.
    ///
    /// # Errors
    /// There are none, there are both, or they can't be read.
    pub fn load(&self) -> Result<MasterKeys, KeyError> {
        let listed = std::env::var(VARIABLE).ok().map(Zeroizing::new);
        MasterKeys::configured(self.file().as_deref(), listed.as_ref().map(|listed| listed.as_str()))
    }
}

/// Returns whether the settings of this process name master keys.
pub fn are_configured() -> bool {
    [VARIABLE, "REJOIN_SECRET_KEYS_FILE"]
        .iter()
        .any(|name| std::env::var_os(name).is_some_and(|value| !value.is_empty()))
}

/// The reason why there are no master keys.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    #[error(
        "no master key for secrets is configured: create one (`rejoin secrets new-key`), store it in a file and set \
        REJOIN_SECRET_KEYS_FILE, or set REJOIN_SECRET_KEYS"
    )]
    None,
    #[error("REJOIN_SECRET_KEYS and REJOIN_SECRET_KEYS_FILE are both set; set only one")]
    Both,
    #[error("reading the file of master keys {} failed", .path.display())]
    File {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("the file of master keys {} has more than {FILE_MAX_BYTES} bytes", .0.display())]
    FileSize(PathBuf),
    #[error(
        "master key {0} must be `id:base64`, with an id of a-z, 0-9, `_` and `-`, at most {ID_MAX_CHARS} \
        characters"
    )]
    Form(usize),
    #[error("the master key {0} is not {KEY_BYTES} bytes in base64")]
    Length(String),
    #[error("there are two master keys with the id {0}")]
    Twice(String),
    #[error("there are more than {MAX_KEYS} master keys")]
    TooMany,
}

struct MasterKey {
    id: String,
    cipher: RandomizedNonceKey,
}

/// The master keys of a process: at least one.
pub struct MasterKeys(Vec<MasterKey>);

impl fmt::Debug for MasterKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|key| &key.id)).finish()
    }
}

impl MasterKeys {
    /// From a file or a list.
    ///
    /// # Errors
    /// There are none, there are both, or they can't be read.
    pub fn configured(file: Option<&Path>, listed: Option<&str>) -> Result<Self, KeyError> {
        match (file, listed.filter(|listed| !listed.trim().is_empty())) {
            (Some(_), Some(_)) => Err(KeyError::Both),
            (Some(path), None) => Self::parse(&read(path)?),
            (None, Some(listed)) => Self::parse(listed),
            (None, None) => Err(KeyError::None),
        }
    }

    /// Parses keys separated by commas or line ends. Empty lines, and those that begin with `#`, are ignored.
    ///
    /// # Errors
    /// It contains no key, or something else.
    pub fn parse(text: &str) -> Result<Self, KeyError> {
        let mut keys: Vec<MasterKey> = Vec::new();
        let entries = text
            .lines()
            .map(str::trim)
            .filter(|line| !line.starts_with('#'))
            .flat_map(|line| line.split(','))
            .map(str::trim)
            .filter(|entry| !entry.is_empty());
        for (number, entry) in (1..).zip(entries) {
            // A malformed entry may be most of a key: it is not shown.
            let (id, key) = entry.split_once(':').ok_or(KeyError::Form(number))?;
            if !is_id(id) {
                return Err(KeyError::Form(number));
            }
            let bytes = Zeroizing::new(STANDARD.decode(key).unwrap_or_default());
            let cipher = cipher(&bytes).ok_or_else(|| KeyError::Length(id.to_owned()))?;
            if keys.iter().any(|known| known.id == id) {
                return Err(KeyError::Twice(id.to_owned()));
            }
            if keys.len() == MAX_KEYS {
                return Err(KeyError::TooMany);
            }
            let id = id.to_owned();
            keys.push(MasterKey { id, cipher });
        }
        if keys.is_empty() {
            return Err(KeyError::None);
        }
        Ok(Self(keys))
    }

    /// The id of the encrypting key.
    pub fn first_id(&self) -> &str {
        &self.0[0].id
    }

    /// The encrypting key.
    pub(super) fn first(&self) -> &RandomizedNonceKey {
        &self.0[0].cipher
    }

    pub(super) fn get(&self, id: &str) -> Option<&RandomizedNonceKey> {
        self.0.iter().find(|key| key.id == id).map(|key| &key.cipher)
    }
}

fn is_id(id: &str) -> bool {
    (1..=ID_MAX_CHARS).contains(&id.len())
        && id
            .bytes()
            .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, b'_' | b'-'))
}

fn read(path: &Path) -> Result<Zeroizing<String>, KeyError> {
    let failed = |source| KeyError::File {
        path: path.to_owned(),
        source,
    };
    let file = std::fs::File::open(path).map_err(failed)?;
    let mut text = Zeroizing::new(String::new());
    file.take(FILE_MAX_BYTES + 1)
        .read_to_string(&mut text)
        .map_err(failed)?;
    if text.len() as u64 > FILE_MAX_BYTES {
        return Err(KeyError::FileSize(path.to_owned()));
    }
    Ok(text)
}

/// Generates a key in the format of the settings: a unique id, and 256 random bits.
pub fn generate() -> Zeroizing<String> {
    let key = Zeroizing::new(rand::random::<[u8; KEY_BYTES]>());
    let id: u32 = rand::random();
    Zeroizing::new(format!(
        "k{id:08x}:{}",
        *Zeroizing::new(STANDARD.encode(key.as_slice()))
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_generated_key_is_one_and_no_two_are_alike() {
        let (one, two) = (generate(), generate());
        assert_ne!(*one, *two);
        let keys = MasterKeys::parse(&format!("# ours\n\n{}\n {} \n", *one, *two)).unwrap();
        assert_eq!(keys.first_id(), one.split(':').next().unwrap());
        assert!(keys.get(two.split(':').next().unwrap()).is_some());
        let listed = MasterKeys::parse(&format!("{},{}", *one, *two)).unwrap();
        assert_eq!(listed.first_id(), keys.first_id());
    }

    #[test]
    fn what_is_no_key_is_refused_and_not_shown() {
        let key = generate();
        let material = key.split(':').next_back().unwrap();
        let refused = |text: &str| {
            let error = MasterKeys::parse(text).unwrap_err();
            let shown = format!("{error} {error:?}");
            assert!(!shown.contains(material) && !shown.contains(&material[..20]), "{shown}");
            error
        };
        assert!(matches!(refused(""), KeyError::None));
        assert!(matches!(refused(" , \n#a:b"), KeyError::None));
        assert!(matches!(refused(material), KeyError::Form(1)));
        assert!(matches!(refused(&format!("{material}:{material}")), KeyError::Form(1)));
        assert!(matches!(
            refused(&format!("a:{}", &material[..40])),
            KeyError::Length(_)
        ));
        assert!(matches!(
            refused(&format!("a:{material}\na:{material}")),
            KeyError::Twice(_)
        ));
        let many: Vec<String> = (0..=MAX_KEYS).map(|n| format!("k{n}:{material}")).collect();
        assert!(matches!(refused(&many.join(",")), KeyError::TooMany));
        let shown = format!("{:?}", MasterKeys::parse(&key).unwrap());
        assert!(!shown.contains(material), "{shown}");
    }

    #[test]
    fn no_setting_and_both_settings_are_different_errors() {
        let key = generate();
        let file = Path::new("/nowhere/at/all");
        assert!(matches!(MasterKeys::configured(None, None), Err(KeyError::None)));
        assert!(matches!(MasterKeys::configured(None, Some(" ")), Err(KeyError::None)));
        assert!(matches!(
            MasterKeys::configured(Some(file), Some(&key)),
            Err(KeyError::Both)
        ));
        assert!(matches!(
            MasterKeys::configured(Some(file), None),
            Err(KeyError::File { .. })
        ));
        assert!(MasterKeys::configured(None, Some(&key)).is_ok());
    }
}
