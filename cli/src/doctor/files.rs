//! Checks that the object store of file content responds and accepts the key. It requests an object that does not
//! exist; nothing is written.

use clap::Parser;
use rejoin_files::objects::{ObjectStore, ObjectStoreArgs, ObjectStoreError};

use super::{Check, Finding, good, lacking};

const RIGHTS: &str = "give the key the rights s3:GetObject, s3:PutObject, s3:DeleteObject, s3:AbortMultipartUpload and, of the bucket, s3:ListBucket";

#[derive(Parser)]
struct Settings {
    #[command(flatten)]
    object_store: ObjectStoreArgs,
}

/// None: files are stored in PostgreSQL.
pub(super) async fn finding() -> Option<Finding> {
    let args = match Settings::try_parse_from(["rejoin"]) {
        Ok(settings) => settings.object_store,
        Err(error) => {
            let found = format!("reading the object store's settings failed: {error}");
            return Some(lacking(Check::Files, true, found.trim(), "see docs/guide/files.md"));
        }
    };
    let asked = match ObjectStore::of(&args) {
        Ok(None) => return None,
        Ok(Some(store)) => store.probe().await,
        Err(error) => Err(error),
    };
    let shown = args.files_url.map(|url| url.to_string()).unwrap_or_default();
    Some(match asked {
        Ok(()) => good(
            Check::Files,
            format!("the object store for files is reachable: {shown}"),
        ),
        Err(error) => {
            let todo = match &error {
                ObjectStoreError::Settings(_) | ObjectStoreError::NotSet => "see docs/guide/files.md",
                ObjectStoreError::Refused(_) => RIGHTS,
                ObjectStoreError::Unavailable(_) | ObjectStoreError::Damaged(_) => {
                    "check REJOIN_FILES_URL, REJOIN_FILES_ENDPOINT and REJOIN_FILES_REGION, the server and the firewall"
                }
            };
            lacking(
                Check::Files,
                true,
                format!("files cannot be stored in {shown}: {error}"),
                todo,
            )
        }
    })
}
