//! Users' programs that `rejoin dev` runs beside the server (`--program`). One is restarted when a file of its code changes.
use std::{
    collections::hash_map::DefaultHasher,
    hash::{Hash, Hasher},
    path::{Path, PathBuf},
    time::Duration,
};

use tokio::{sync::watch, time::sleep};

/// Interval of looks at the files.
const LOOK_EVERY: Duration = Duration::from_millis(300);
/// Files that count as code. Not those that a program may write itself, such as logs and JSON: it would be restarted for ever.
const CODE: [&str; 20] = [
    "py", "pyi", "ts", "tsx", "mts", "cts", "js", "jsx", "mjs", "cjs", "rb", "go", "rs", "java", "kt", "php", "cs",
    "ex", "exs", "toml",
];
/// Folders whose content is installed or built, besides hidden ones.
const SKIPPED: [&str; 5] = ["node_modules", "__pycache__", "site-packages", "target", "venv"];
/// Limits what one look costs, in a folder that holds much more than a program.
const FILES_MAX: usize = 20_000;

/// Counts the changes of the code below a folder, until all receivers are dropped.
pub fn watch_code(folder: PathBuf) -> watch::Receiver<u64> {
    let (changes, changed) = watch::channel(0);
    let look = move || {
        let folder = folder.clone();
        // A folder of a network may be slow.
        tokio::task::spawn_blocking(move || state(&folder))
    };
    tokio::spawn(async move {
        let mut known = look().await.ok();
        while !changes.is_closed() {
            sleep(LOOK_EVERY).await;
            let mut now = look().await.ok();
            if now == known {
                continue;
            }
            // An editor, or a checkout of another revision, may write several files.
            loop {
                sleep(LOOK_EVERY).await;
                let later = look().await.ok();
                if later == now {
                    break;
                }
                now = later;
            }
            known = now;
            changes.send_modify(|count| *count += 1);
        }
    });
    changed
}

/// A number that differs if a file of the code has been added, removed or changed.
fn state(folder: &Path) -> u64 {
    let mut hasher = DefaultHasher::new();
    let mut folders = vec![folder.to_owned()];
    let mut files = 0;
    while let Some(folder) = folders.pop() {
        let mut entries: Vec<_> = std::fs::read_dir(folder).into_iter().flatten().flatten().collect();
        entries.sort_by_key(std::fs::DirEntry::file_name);
        for entry in entries {
            let (name, path) = (entry.file_name(), entry.path());
            let name = name.to_string_lossy();
            // Links are not followed: they may lead in a circle.
            let Ok(kind) = entry.file_type() else { continue };
            if kind.is_dir() {
                if !name.starts_with('.') && !SKIPPED.contains(&name.as_ref()) {
                    folders.push(path);
                }
                continue;
            }
            let is_code = path
                .extension()
                .is_some_and(|extension| CODE.iter().any(|code| extension == *code));
            if is_code && files < FILES_MAX {
                files += 1;
                path.hash(&mut hasher);
                if let Ok(found) = entry.metadata() {
                    (found.len(), found.modified().ok()).hash(&mut hasher);
                }
            }
        }
    }
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use tokio::time::timeout;

    use super::*;

    #[tokio::test]
    async fn code_is_watched_and_what_a_program_writes_is_not() {
        let folder = std::env::temp_dir().join(format!("rejoin-code-{}", uuid::Uuid::now_v7().simple()));
        for name in ["lib", "node_modules", ".git"] {
            fs::create_dir_all(folder.join(name)).unwrap();
        }
        fs::write(folder.join("tools.py"), "1").unwrap();
        let before = state(&folder);
        for ignored in ["log.txt", "state.json", "node_modules/a.js", ".git/a.py"] {
            fs::write(folder.join(ignored), "1").unwrap();
            assert_eq!(state(&folder), before, "{ignored}");
        }
        let mut changed = watch_code(folder.clone());
        for (file, content) in [("tools.py", "22"), ("lib/more.ts", "1")] {
            // The first look may come after the change otherwise.
            sleep(LOOK_EVERY).await;
            fs::write(folder.join(file), content).unwrap();
            timeout(Duration::from_secs(20), changed.changed())
                .await
                .expect(file)
                .unwrap();
        }
        fs::remove_dir_all(&folder).unwrap();
    }
}
