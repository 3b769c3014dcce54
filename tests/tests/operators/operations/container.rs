//! The contents of the container image. Reads the Dockerfile and its ignore list; `make test-image` builds the image.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn read(name: &str) -> String {
    std::fs::read_to_string(root().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Returns the root paths that the ignore list includes.
fn let_in() -> BTreeSet<String> {
    read(".dockerignore")
        .lines()
        .filter_map(|line| line.strip_prefix('!'))
        .map(str::to_owned)
        .collect()
}

#[test]
fn the_ignore_list_lets_in_exactly_the_workspaces_members() {
    let manifest: toml::Value = toml::from_str(&read("Cargo.toml")).unwrap();
    let members = manifest["workspace"]["members"].as_array().unwrap();
    let mut needed: BTreeSet<String> = members
        .iter()
        .map(|member| member.as_str().unwrap().split('/').next().unwrap().to_owned())
        .collect();
    assert!(needed.len() > 5, "{needed:?}");
    // Files read by the members' sources and the build's scripts.
    for name in [
        "Cargo.toml",
        "Cargo.lock",
        "LICENSE",
        ".sqlx",
        "data",
        "migrations",
        "scripts",
        "web",
    ] {
        needed.insert(name.to_owned());
    }
    let let_in = let_in();
    let missing: Vec<_> = needed.difference(&let_in).collect();
    assert!(
        missing.is_empty(),
        "the image's build lacks {missing:?}: .dockerignore leaves them out"
    );
    for name in &let_in {
        assert!(
            root().join(name).exists(),
            ".dockerignore names {name}, which is not there"
        );
    }
}

#[test]
fn every_file_that_is_compiled_in_is_let_in() {
    let let_in = let_in();
    for member in ["shared", "extensions", "api", "worker", "cli"] {
        let mut folders = vec![root().join(member)];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(&folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                    continue;
                }
                let Ok(text) = std::fs::read_to_string(&path) else {
                    continue;
                };
                for included in text
                    .split("include_str!(\"")
                    .chain(text.split("include_bytes!(\""))
                    .skip(1)
                {
                    let Some((name, _)) = included.split_once("\")") else {
                        continue;
                    };
                    let Ok(file) = path.parent().unwrap().join(name).canonicalize() else {
                        continue;
                    };
                    let top = file.strip_prefix(root().canonicalize().unwrap()).unwrap();
                    let top = top.components().next().unwrap().as_os_str().to_str().unwrap();
                    assert!(
                        let_in.contains(top),
                        "{}: {name} is not in the image's build",
                        path.display()
                    );
                }
            }
        }
    }
}

#[test]
fn the_image_has_its_user_the_web_app_and_the_search_model() {
    let file = read("Dockerfile");
    let last = file.rsplit("\nFROM ").next().unwrap();
    let user = last.lines().find_map(|line| line.strip_prefix("USER ")).unwrap();
    assert_eq!(
        user, "10001:10001",
        "a number, so that Kubernetes can check that it is not root"
    );
    for script in [
        "setup-web.sh",
        "setup-search.sh",
        "halve-model.py",
        "image-binary.sh",
        "image-files.sh",
    ] {
        assert!(file.contains(&format!("scripts/{script}")), "{script}");
        assert!(root().join("scripts").join(script).is_file(), "{script}");
    }
}
