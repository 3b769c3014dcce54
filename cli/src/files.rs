//! `rejoin files`: uploads and downloads the caller's files, byte for byte; also the uploads of `rejoin chat --attach`.
//! Through the API.
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::Subcommand;
use rejoin_files::types::{Signature, signature};
use serde_json::Value;
use uuid::Uuid;

use crate::{client::Client, dev_instance, exit::Exit, fields::field, global::Global, out::Out};

/// Your files: attachments of your messages, and files that tools created for you.
///
/// Images, PDF, audio and UTF-8 text can be uploaded. A file that no message refers to is deleted after a day.
///
/// Examples:
///   rejoin files put report.pdf
///   rejoin files list
///   rejoin files get 0192f0c1-… report.pdf
///   rejoin files rm 0192f0c1-…
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    #[command(subcommand)]
    pub action: Action,
}

#[derive(Debug, Subcommand)]
pub enum Action {
    /// List all files, newest first.
    List,
    /// Upload files and print their ids.
    Put {
        #[arg(required = true)]
        files: Vec<PathBuf>,
    },
    /// Download a file.
    Get {
        /// The file's id.
        id: Uuid,
        /// File to write; `-` writes to stdout [default: the file's name, in this directory]
        file: Option<PathBuf>,
    },
    /// Delete files. Messages keep their names.
    Rm {
        /// The files' ids.
        #[arg(required = true)]
        ids: Vec<Uuid>,
    },
}

/// # Errors
/// A file can't be read or written, or the API is unreachable or refuses.
pub async fn run(global: &Global, args: Args, out: Out) -> Result<Exit> {
    let client = Client::new(dev_instance::access(global)?)?;
    match args.action {
        Action::List => list(&client, out).await?,
        Action::Put { files } => {
            for file in files {
                let stored = put(&client, &file).await?;
                out.either(&stored, || {
                    format!("{}  {}", field(&stored, "id"), field(&stored, "name"))
                })?;
            }
        }
        Action::Get { id, file } => {
            let known = client.get(&format!("/api/files/{id}")).await?;
            let content = client.bytes(&format!("/api/files/{id}/content")).await?;
            match file {
                Some(file) if file.as_os_str() == "-" => {
                    let mut stdout = std::io::stdout().lock();
                    stdout.write_all(&content)?;
                    stdout.flush()?;
                }
                Some(file) => {
                    std::fs::write(&file, content).with_context(|| format!("writing {} failed", file.display()))?;
                    out.note(&format!("{} was written to {}", field(&known, "name"), file.display()));
                }
                None => {
                    let name = field(&known, "name");
                    // A name chosen by others must not overwrite our files.
                    let mut file = std::fs::File::create_new(&name).with_context(|| {
                        format!(
                            "writing {name} here failed; pass a file name: rejoin files get {id} \
                            FILE"
                        )
                    })?;
                    file.write_all(&content)
                        .with_context(|| format!("writing {name} failed"))?;
                    out.note(&format!("{name} was downloaded"));
                }
            }
        }
        Action::Rm { ids } => {
            for id in ids {
                client.delete(&format!("/api/files/{id}")).await?;
            }
        }
    }
    Ok(Exit::Done)
}

async fn list(client: &Client, out: Out) -> Result<()> {
    let mut rows = Vec::new();
    let mut cursor = String::new();
    // Loads all pages: each has a new cursor.
    loop {
        let page = client.get(&format!("/api/files?limit=100{cursor}")).await?;
        for file in page["items"].as_array().into_iter().flatten() {
            if out.is_json() {
                out.json(file)?;
            }
            rows.push([
                field(file, "id"),
                field(file, "name"),
                field(file, "mediaType"),
                file["sizeBytes"].to_string(),
                field(file, "createdAt"),
            ]);
        }
        match page["nextCursor"].as_str() {
            Some(next) => {
                let next: String = url::form_urlencoded::byte_serialize(next.as_bytes()).collect();
                cursor = format!("&cursor={next}");
            }
            None => break,
        }
    }
    if out.is_json() {
        Ok(())
    } else {
        out.table(["ID", "NAME", "TYPE", "BYTES", "CREATED"], &rows)
    }
}

/// Uploads a file. Its content determines its type: an extension may lie.
pub async fn put(client: &Client, file: &Path) -> Result<Value> {
    let content = std::fs::read(file).with_context(|| format!("reading {} failed", file.display()))?;
    let name = file
        .file_name()
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default();
    let media_type = match signature(&content) {
        Signature::Known(media_type) => media_type,
        Signature::Foreign(_) | Signature::None => "application/octet-stream",
    };
    let name: String = url::form_urlencoded::byte_serialize(name.as_bytes()).collect();
    let stored = client
        .upload(&format!("/api/files?name={name}"), media_type, content)
        .await;
    stored.with_context(|| format!("{} was not uploaded", file.display()))
}
