//! Settings of the archive: command-line options of `rejoin api` and `rejoin worker`, each with an environment variable.

use clap::Args;
use url::Url;

const MIB: u64 = 1024 * 1024;
/// Default size of the cache, in bytes.
const CACHE_BYTES: u64 = 64 * MIB;
/// Default maximum size of the events of one object, in bytes.
const OBJECT_BYTES: u64 = 4 * MIB;
/// Shorter than the time that a reader waits for a page.
const TIMEOUT_S: u64 = 4;
const READS: usize = 16;

/// Where old logs are kept, and which.
#[derive(Debug, Clone, Args)]
pub struct ArchiveArgs {
    /// Store of old logs: file:///DIRECTORY, s3://BUCKET/PREFIX, gs://BUCKET/PREFIX or az://CONTAINER/PREFIX [default: logs stay in
    /// PostgreSQL]. Credentials and endpoints by the provider's own variables, AWS_*, GOOGLE_* or AZURE_*
    #[arg(long, env = "REJOIN_ARCHIVE_URL")]
    pub archive_url: Option<Url>,

    /// Age of the end of a conversation's last run at which its log is archived, in days, fractions allowed; 0: never
    #[arg(long, env = "REJOIN_ARCHIVE_AFTER_DAYS", default_value_t = 0.0, value_parser = days)]
    pub archive_after_days: f64,

    /// Maximum size of the events of one archived object before compression, in bytes
    #[arg(long, env = "REJOIN_ARCHIVE_OBJECT_BYTES", default_value_t = OBJECT_BYTES, value_parser = clap::value_parser!(u64).range(64 * 1024..=64 * MIB))]
    pub archive_object_bytes: u64,

    /// Maximum size of recently read objects in memory, in bytes
    #[arg(long, env = "REJOIN_ARCHIVE_CACHE_BYTES", default_value_t = CACHE_BYTES)]
    pub archive_cache_bytes: u64,

    /// Maximum number of objects that a process reads at the same time
    #[arg(long, env = "REJOIN_ARCHIVE_READS", default_value_t = READS, value_parser = reads)]
    pub archive_reads: usize,

    /// Timeout of one request to the store, in seconds
    #[arg(long, env = "REJOIN_ARCHIVE_TIMEOUT_S", default_value_t = TIMEOUT_S, value_parser = clap::value_parser!(u64).range(1..=600))]
    pub archive_timeout_s: u64,
}

impl Default for ArchiveArgs {
    fn default() -> Self {
        Self {
            archive_url: None,
            archive_after_days: 0.0,
            archive_object_bytes: OBJECT_BYTES,
            archive_cache_bytes: CACHE_BYTES,
            archive_reads: READS,
            archive_timeout_s: TIMEOUT_S,
        }
    }
}

fn days(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(days) if days.is_finite() && days >= 0.0 => Ok(days),
        Ok(_) | Err(_) => Err("a number of days is required, such as 90 or 0.5".to_owned()),
    }
}

fn reads(text: &str) -> Result<usize, String> {
    match text.parse::<usize>() {
        Ok(reads) if (1..=1_000).contains(&reads) => Ok(reads),
        Ok(_) | Err(_) => Err("a number from 1 to 1000 is required".to_owned()),
    }
}
