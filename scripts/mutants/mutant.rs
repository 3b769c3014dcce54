//! The mutant of this process, in a tree created by `scripts/mutants/instrument.py`: all mutants are compiled,
//! REJOIN_MUTANT enables one. If REJOIN_MUTANTS_REACHED names a file, byte N of it records whether mutant N was
//! reached, by any process.
#![allow(unsafe_code, reason = "bytes of a file that several processes share")]

use std::os::fd::AsRawFd;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU8, Ordering};

/// Maximum number of mutants: the size of the file, in bytes.
const MOST: usize = 65_536;

static CHOSEN: LazyLock<u32> = LazyLock::new(|| {
    let chosen = std::env::var("REJOIN_MUTANT").ok();
    chosen.and_then(|id| id.parse().ok()).unwrap_or(0)
});

static REACHED: LazyLock<Option<&'static [AtomicU8]>> = LazyLock::new(|| {
    let path = std::env::var_os("REJOIN_MUTANTS_REACHED")?;
    let file = std::fs::File::options().read(true).write(true).open(path).ok()?;
    // PROT_READ | PROT_WRITE, MAP_SHARED.
    let start = unsafe { mmap(std::ptr::null_mut(), MOST, 1 | 2, 1, file.as_raw_fd(), 0) };
    if start as isize == -1 {
        return None;
    }
    // SAFETY: mapped until the process ends, and written by atomic stores alone.
    Some(unsafe { std::slice::from_raw_parts(start.cast::<AtomicU8>(), MOST) })
});

unsafe extern "C" {
    fn mmap(start: *mut u8, length: usize, protection: i32, flags: i32, fd: i32, offset: i64) -> *mut u8;
}

/// Returns whether this mutant is enabled.
pub fn on(id: u32) -> bool {
    if let Some(reached) = *REACHED {
        reached[id as usize].store(1, Ordering::Relaxed);
    }
    *CHOSEN == id
}

/// For programs started with an empty environment.
pub fn environment() -> impl Iterator<Item = (String, String)> {
    std::env::vars().filter(|(name, _)| name.starts_with("REJOIN_MUTANT"))
}

/// The change of the migrated database: mutants of functions and policies.
pub fn of_database() -> Option<String> {
    std::env::var("REJOIN_MUTANT_SQL").ok()
}
