//! Locations of a workspace's database files: `<folder>/<workspace id>/`, for each folder that the operator names, and
//! nowhere else. Called by `sqlite` and `duckdb`.
//!
//! Invariant: an opened path contains no symbolic link, neither out of the folder nor in place of the workspace's own.

use std::path::{Path, PathBuf};

use uuid::Uuid;

use crate::source::SourceError;

/// The folders of one workspace.
pub struct Folder {
    /// The operator's folders, for all workspaces.
    all: Vec<PathBuf>,
    workspace_id: Uuid,
}

impl Folder {
    pub fn new(all: Vec<PathBuf>, workspace_id: Uuid) -> Self {
        Self { all, workspace_id }
    }

    /// Resolves a path to a file, without symbolic links.
    ///
    /// # Errors
    /// It is no file of the workspace. Whether it exists is not revealed.
    pub fn file(&self, path: &str) -> Result<PathBuf, SourceError> {
        if self.all.is_empty() {
            return Err(SourceError::Unconfigured(
                "files can be data sources only in folders that the operator lists in REJOIN_SOURCE_FOLDERS".to_owned(),
            ));
        }
        let real = Path::new(path).canonicalize().ok();
        let found = real.filter(|real| real.is_file() && self.own().any(|own| real.starts_with(own)));
        found.ok_or_else(|| {
            SourceError::Refused(format!(
                "{path} is not a file of this project; its files are in <folder>/{}/, where <folder> is listed in \
                REJOIN_SOURCE_FOLDERS",
                self.workspace_id
            ))
        })
    }

    /// Returns the workspace's existing folders. A symbolic link does not count.
    fn own(&self) -> impl Iterator<Item = PathBuf> {
        self.all.iter().filter_map(|folder| {
            let wanted = folder.canonicalize().ok()?.join(self.workspace_id.to_string());
            wanted.canonicalize().ok().filter(|real| *real == wanted)
        })
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_file_belongs_to_its_folders_project_despite_links() {
        let root = std::env::temp_dir().join(format!("rejoin-folders-{}", Uuid::now_v7().simple()));
        let (own, other, linked) = (Uuid::now_v7(), Uuid::now_v7(), Uuid::now_v7());
        for project in [own, other] {
            std::fs::create_dir_all(root.join(project.to_string())).unwrap();
            std::fs::write(root.join(project.to_string()).join("shop.db"), "x").unwrap();
        }
        std::fs::write(root.join("all.db"), "x").unwrap();
        let folder = root.join(own.to_string());
        symlink(root.join(other.to_string()).join("shop.db"), folder.join("link.db")).unwrap();
        symlink(root.join(other.to_string()), folder.join("elsewhere")).unwrap();
        symlink(folder.join("shop.db"), folder.join("same.db")).unwrap();
        symlink(&folder, root.join(linked.to_string())).unwrap();
        let of = |project: Uuid, path: PathBuf| {
            let folder = Folder::new(vec![root.clone()], project);
            folder.file(&path.display().to_string())
        };
        let real = root.canonicalize().unwrap().join(own.to_string()).join("shop.db");
        assert_eq!(of(own, folder.join("shop.db")), Ok(real.clone()));
        assert_eq!(
            of(own, folder.join("same.db")),
            Ok(real),
            "a link within the folder is the file that it means"
        );
        for refused in [
            root.join(other.to_string()).join("shop.db"),
            folder.join("link.db"),
            folder.join("elsewhere/shop.db"),
            folder.join("..").join(other.to_string()).join("shop.db"),
            folder.join("nothing.db"),
            folder.clone(),
            root.join("all.db"),
            "/etc/hostname".into(),
            "".into(),
        ] {
            let opened = of(own, refused.clone());
            assert!(
                matches!(opened, Err(SourceError::Refused(_))),
                "{}: {opened:?}",
                refused.display()
            );
        }
        let through = root.join(linked.to_string()).join("shop.db");
        assert!(of(linked, through).is_err(), "a project's folder is no link");
        std::fs::remove_dir_all(root).unwrap();
    }
}
