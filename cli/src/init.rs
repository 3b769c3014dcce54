//! `rejoin init`: a new program with tools for agents, from a template.
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use serde_json::json;

use crate::{exit::Exit, global::Global, out::Out};

/// Create a program that serves tools to agents.
///
/// The new folder has two tools, one of which is a durable function, with tests and a README that says how to run them beside
/// `rejoin dev`.
///
/// Examples:
///   rejoin init my-agent
///   rejoin init my-agent --lang typescript
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// Folder of the program; its last part is the program's name
    folder: PathBuf,
    /// Language of the program
    #[arg(long, value_enum, default_value_t = Lang::Python)]
    lang: Lang,
}

/// Languages with a template.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Lang {
    Python,
    #[value(name = "typescript", alias = "ts")]
    TypeScript,
}

/// A file of a template: its path and its content. `{name}` stands for the program's name.
type File = (&'static str, &'static str);

const PYTHON: &[File] = &[
    ("tools.py", include_str!("init/python/tools.py")),
    ("test_tools.py", include_str!("init/python/test_tools.py")),
    ("ask.py", include_str!("init/python/ask.py")),
    ("requirements.txt", include_str!("init/python/requirements.txt")),
    ("Procfile", include_str!("init/python/Procfile")),
    ("README.md", include_str!("init/python/README.md")),
    (".gitignore", include_str!("init/python/gitignore")),
];
const TYPESCRIPT: &[File] = &[
    ("src/tools.ts", include_str!("init/typescript/tools.ts")),
    ("src/serve.ts", include_str!("init/typescript/serve.ts")),
    ("src/tools.test.ts", include_str!("init/typescript/tools.test.ts")),
    ("package.json", include_str!("init/typescript/package.json")),
    ("tsconfig.json", include_str!("init/typescript/tsconfig.json")),
    ("Procfile", include_str!("init/typescript/Procfile")),
    ("README.md", include_str!("init/typescript/README.md")),
    (".gitignore", include_str!("init/typescript/gitignore")),
];

/// # Errors
/// The folder is not empty, has a name that no program can have, or can't be written.
pub async fn run(_global: &Global, args: Args, out: Out) -> Result<Exit> {
    let name = args
        .folder
        .file_name()
        .and_then(|name| name.to_str())
        .unwrap_or_default();
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-_".contains(c);
    if name.is_empty() || !name.chars().all(is_plain) || !name.starts_with(|c: char| c.is_ascii_alphanumeric()) {
        bail!(
            "the name {} is not allowed; use lower-case letters, digits, - and _, such as my-agent",
            args.folder.display()
        );
    }
    let files = match args.lang {
        Lang::Python => PYTHON,
        Lang::TypeScript => TYPESCRIPT,
    };
    write(&args.folder, name, files)?;
    let paths: Vec<&str> = files.iter().map(|(path, _)| *path).collect();
    let folder = args.folder.display();
    out.either(&json!({"folder": args.folder, "files": paths}), || {
        format!(
            "Created {folder} with {}.\nNext: cd {folder}, and follow README.md.",
            paths.join(", ")
        )
    })?;
    Ok(Exit::Done)
}

/// Writes the files of a template into a folder, which must be absent or empty.
fn write(folder: &Path, name: &str, files: &[File]) -> Result<()> {
    let is_used = fs::read_dir(folder).is_ok_and(|mut found| found.next().is_some());
    if is_used || folder.is_file() {
        bail!(
            "{} is there already and not empty; choose another folder",
            folder.display()
        );
    }
    for (path, content) in files {
        let path = folder.join(path);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).with_context(|| format!("can't create {}", parent.display()))?;
        }
        fs::write(&path, content.replace("{name}", name)).with_context(|| format!("can't write {}", path.display()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_is_written_into_an_empty_folder_only() {
        let root = std::env::temp_dir().join(format!("rejoin-init-{}", std::process::id()));
        for (name, files) in [("python-tools", PYTHON), ("typescript-tools", TYPESCRIPT)] {
            let folder = root.join(name);
            write(&folder, name, files).expect("a program");
            for (path, _) in files {
                let written = fs::read_to_string(folder.join(path)).expect("a file");
                assert!(!written.contains("{name}"), "{path}");
            }
            let readme = fs::read_to_string(folder.join("README.md")).expect("a README");
            assert!(readme.starts_with(&format!("# {name}")), "{readme}");
            let error = write(&folder, name, files).expect_err("it is there");
            assert!(error.to_string().contains("choose another folder"), "{error}");
        }
        fs::remove_dir_all(root).expect("it can be removed");
    }
}
