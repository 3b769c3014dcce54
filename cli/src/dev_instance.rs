//! The file that `rejoin dev` leaves in its data directory, so that other commands on the same machine need no
//! settings.
//!
//! `dev` writes `current.json`; every command that uses an API or a database reads it last. Invariants: an option
//! overrides an environment variable, which overrides the file; the file's key is sent to the file's API only, never to
//! another host; only its owner can read the file.
use std::{
    fs,
    io::Write,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use uuid::Uuid;

use crate::{exit::Exit, global::Global};

const FILE: &str = "current.json";
const DEFAULT_URL: &str = "http://127.0.0.1:7420";

/// The last `rejoin dev` started with this data directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DevInstance {
    pub url: String,
    pub api_key: String,
    #[serde(rename = "projectId")]
    pub workspace_id: Uuid,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub database_url: Option<String>,
}

/// An API and its credentials.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Access {
    pub url: String,
    pub api_key: String,
    /// Known only for `rejoin dev`'s own API, or from `REJOIN_PROJECT_ID`.
    pub workspace_id: Option<Uuid>,
}

/// Returns the data directory of `rejoin dev`: `REJOIN_DATA_DIR`, or a folder below the user's home.
///
/// # Errors
/// Neither that variable, nor `XDG_DATA_HOME`, nor `HOME` is set.
pub fn default_data_dir() -> Result<PathBuf> {
    let variable = |name: &str| {
        std::env::var_os(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    variable("REJOIN_DATA_DIR")
        .or_else(|| Some(variable("XDG_DATA_HOME")?.join("rejoin/dev")))
        .or_else(|| Some(variable("HOME")?.join(".local/share/rejoin/dev")))
        .context("HOME is not set; pass --data-dir, or set REJOIN_DATA_DIR")
}

impl DevInstance {
    /// # Errors
    /// The directory is not writable.
    pub fn write(&self, data_dir: &Path) -> Result<()> {
        write_private(&data_dir.join(FILE), self)
    }

    /// Reads the file; an unreadable one counts as absent.
    pub fn read(data_dir: &Path) -> Option<Self> {
        read_json(&data_dir.join(FILE))
    }

    /// Reads the one in the default data directory.
    pub fn here() -> Option<Self> {
        Self::read(&default_data_dir().ok()?)
    }
}

/// Returns the API to use, with its key.
///
/// # Errors
/// No key is known; the message explains how to give one.
pub fn access(global: &Global) -> Result<Access> {
    let project = std::env::var("REJOIN_PROJECT_ID").ok().filter(|id| !id.is_empty());
    let project = project
        .map(|id| {
            id.parse()
                .with_context(|| format!("REJOIN_PROJECT_ID is not a valid id: {id:?}"))
        })
        .transpose()?;
    choose(global.url(), global.api_key(), project, DevInstance::here())
}

/// Returns the API's URL alone.
pub fn api_url(global: &Global) -> String {
    let url = global
        .url()
        .map(str::to_owned)
        .or_else(|| Some(DevInstance::here()?.url));
    url.unwrap_or_else(|| DEFAULT_URL.to_owned())
}

/// Returns the database to use.
///
/// # Errors
/// None is known; the message explains how to give one.
pub fn database_url(global: &Global) -> Result<String> {
    match global.database_url() {
        Some(url) => Ok(url.to_owned()),
        None => match DevInstance::here().and_then(|current| current.database_url) {
            Some(url) => Ok(url),
            None => Ok(global.need_database_url()?.to_owned()),
        },
    }
}

fn choose(url: Option<&str>, key: Option<&str>, project: Option<Uuid>, current: Option<DevInstance>) -> Result<Access> {
    let same = |a: &str, b: &str| a.trim_end_matches('/') == b.trim_end_matches('/');
    // The file applies to its own API only.
    let current = current.filter(|current| url.is_none_or(|url| same(url, &current.url)));
    let chosen = url
        .map(str::to_owned)
        .or_else(|| current.as_ref().map(|current| current.url.clone()));
    let url = chosen.unwrap_or_else(|| DEFAULT_URL.to_owned());
    let Some(api_key) = key
        .map(str::to_owned)
        .or_else(|| current.as_ref().map(|current| current.api_key.clone()))
    else {
        let message = format!(
            "no API key for {url}: start `rejoin dev` on this machine, or set REJOIN_API_KEY (and REJOIN_URL) for \
            your server; `rejoin keys create` creates a key"
        );
        return Err(Exit::NotAuthenticated.because(message).into());
    };
    // The project of another key is unknown.
    let own = current
        .filter(|current| current.api_key == api_key)
        .map(|current| current.workspace_id);
    Ok(Access {
        url: url.trim_end_matches('/').to_owned(),
        api_key,
        workspace_id: project.or(own),
    })
}

pub(crate) fn read_json<T: DeserializeOwned>(path: &Path) -> Option<T> {
    serde_json::from_slice(&fs::read(path).ok()?).ok()
}

/// Replaces the file atomically; only its owner may read it.
pub(crate) fn write_private(path: &Path, value: &impl Serialize) -> Result<()> {
    let attempt = || format!("writing {} failed", path.display());
    let new = path.with_extension(format!("new-{}", std::process::id()));
    // Left by a killed process.
    let _none = fs::remove_file(&new);
    let mut options = fs::OpenOptions::new();
    let mut file = options
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&new)
        .with_context(attempt)?;
    let mut text = serde_json::to_vec_pretty(value)?;
    text.push(b'\n');
    file.write_all(&text).with_context(attempt)?;
    fs::rename(&new, path).with_context(attempt)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn current() -> DevInstance {
        DevInstance {
            url: "http://127.0.0.1:7420".to_owned(),
            api_key: "rejoin_of_dev".to_owned(),
            workspace_id: Uuid::from_u128(1),
            database_url: None,
        }
    }

    fn chosen(url: Option<&str>, key: Option<&str>) -> (String, String, Option<Uuid>) {
        let access = choose(url, key, None, Some(current())).unwrap();
        (access.url, access.api_key, access.workspace_id)
    }

    #[test]
    fn what_was_asked_for_beats_the_file() {
        let own = Some(Uuid::from_u128(1));
        let here = "http://127.0.0.1:7420".to_owned();
        assert_eq!(chosen(None, None), (here.clone(), "rejoin_of_dev".to_owned(), own));
        assert_eq!(chosen(None, Some("mine")), (here.clone(), "mine".to_owned(), None));
        assert_eq!(
            chosen(Some("https://far.example/"), Some("mine")),
            ("https://far.example".to_owned(), "mine".to_owned(), None)
        );
        assert_eq!(
            chosen(Some("http://127.0.0.1:7420/"), None),
            (here, "rejoin_of_dev".to_owned(), own)
        );
        let project = Some(Uuid::from_u128(2));
        assert_eq!(
            choose(None, None, project, Some(current())).unwrap().workspace_id,
            project
        );
    }

    #[test]
    fn the_key_of_dev_goes_to_no_other_server() {
        let error = choose(Some("https://far.example"), None, None, Some(current())).unwrap_err();
        assert_eq!(Exit::of(&error), Exit::NotAuthenticated);
        assert!(format!("{error:#}").contains("REJOIN_API_KEY"), "{error:#}");
    }

    #[test]
    fn without_anything_the_error_says_what_to_do() {
        let error = format!("{:#}", choose(None, None, None, None).unwrap_err());
        assert!(
            error.contains("rejoin dev") && error.contains("REJOIN_API_KEY"),
            "{error}"
        );
    }

    #[test]
    fn the_file_is_for_its_owner_alone_and_reads_as_it_was_written() {
        let dir = std::env::temp_dir().join(format!("rejoin-current-{}", Uuid::now_v7().simple()));
        fs::create_dir(&dir).unwrap();
        current().write(&dir).unwrap();
        current().write(&dir).unwrap();
        assert_eq!(DevInstance::read(&dir), Some(current()));
        assert_eq!(
            fs::metadata(dir.join(FILE)).unwrap().permissions().mode() & 0o777,
            0o600
        );
        assert_eq!(fs::read_dir(&dir).unwrap().count(), 1);
        fs::remove_dir_all(dir).unwrap();
    }
}
