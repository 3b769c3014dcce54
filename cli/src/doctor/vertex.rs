//! Checks the configuration of Vertex AI: its location, and the source of its tokens. Nothing is requested, and no
//! secret is shown.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::{Check, Finding, good, lacking};

/// Kinds of credentials supported by workers, as named in their files.
const KINDS: [&str; 4] = [
    "service_account",
    "authorized_user",
    "impersonated_service_account",
    "external_account",
];
/// The path of gcloud's user credentials, below the home directory.
const GCLOUD_FILE: &str = ".config/gcloud/application_default_credentials.json";

/// None: Vertex AI is not configured.
pub(super) fn finding(variable: impl Fn(&str) -> Option<String>) -> Option<Finding> {
    let key = variable("VERTEX_API_KEY");
    let file = variable("GOOGLE_APPLICATION_CREDENTIALS").map(PathBuf::from);
    let place = ["VERTEX_BASE_URL", "VERTEX_PROJECT_ID"].into_iter().find_map(&variable);
    let project = variable("GOOGLE_CLOUD_PROJECT").filter(|_| file.is_some());
    if key.is_none() && place.is_none() && project.is_none() {
        return None;
    }
    if place.or(project).or_else(|| variable("GOOGLE_CLOUD_PROJECT")).is_none() {
        let todo = "export VERTEX_PROJECT_ID=… (and VERTEX_LOCATION=…, if it is not global)";
        return Some(lacking(
            Check::Models,
            false,
            "Vertex AI has a key, but no project",
            todo,
        ));
    }
    if key.is_some() {
        let found = "Vertex AI: using the access token of VERTEX_API_KEY, which is not refreshed";
        return Some(good(Check::Models, found));
    }
    let of_gcloud = || {
        let file = Path::new(&variable("HOME")?).join(GCLOUD_FILE);
        file.exists().then_some(file)
    };
    Some(match file.or_else(of_gcloud) {
        Some(file) => of_file(&file),
        None => lacking(
            Check::Models,
            false,
            "Vertex AI: no credentials found; on Google Cloud the metadata server provides tokens",
            "export GOOGLE_APPLICATION_CREDENTIALS=… (a credentials file), or run `gcloud auth application-default \
            login`",
        ),
    })
}

fn of_file(file: &Path) -> Finding {
    let shown = file.display();
    let todo = "export GOOGLE_APPLICATION_CREDENTIALS=… (a service account key, or the file that `gcloud auth \
        application-default login` writes)";
    let Ok(content) = std::fs::read_to_string(file) else {
        return lacking(Check::Models, false, format!("Vertex AI: {shown} cannot be read"), todo);
    };
    let parsed = serde_json::from_str::<Value>(&content).unwrap_or_default();
    match KINDS.iter().find(|kind| parsed["type"] == **kind) {
        Some(kind) => good(Check::Models, format!("Vertex AI: using {shown} ({kind})")),
        None => lacking(
            Check::Models,
            false,
            format!("Vertex AI: {shown} contains credentials of an unsupported type"),
            todo,
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Verdict;
    use super::*;

    fn say(vars: &[(&str, &str)]) -> Option<(Verdict, String)> {
        let found = finding(|name| {
            let found = vars.iter().find(|(variable, _)| *variable == name);
            found.map(|(_, value)| (*value).to_owned())
        });
        found.map(|finding| (finding.verdict, finding.found))
    }

    #[test]
    fn the_source_of_vertex_tokens_is_reported_without_them() {
        assert_eq!(say(&[("GOOGLE_CLOUD_PROJECT", "p")]), None);
        let (verdict, found) = say(&[("VERTEX_API_KEY", "very-secret")]).unwrap();
        assert_eq!(
            (verdict, found.as_str()),
            (Verdict::Note, "Vertex AI has a key, but no project")
        );
        let place = ("VERTEX_PROJECT_ID", "p");
        let (verdict, found) = say(&[place, ("VERTEX_API_KEY", "very-secret")]).unwrap();
        assert_eq!(verdict, Verdict::Good);
        assert!(!found.contains("very-secret"));
        assert_eq!(say(&[place]).unwrap().0, Verdict::Note);

        let file = std::env::temp_dir().join(format!("rejoin-doctor-vertex-{}.json", std::process::id()));
        let path = file.display().to_string();
        let vars = [place, ("GOOGLE_APPLICATION_CREDENTIALS", path.as_str())];
        assert_eq!(say(&vars).unwrap().0, Verdict::Note);
        std::fs::write(&file, r#"{"type": "service_account", "private_key": "very-secret"}"#).unwrap();
        let (verdict, found) = say(&vars).unwrap();
        assert_eq!(verdict, Verdict::Good);
        assert!(found.ends_with("(service_account)"), "{found}");
        std::fs::write(&file, r#"{"type": "nonsense"}"#).unwrap();
        assert_eq!(say(&vars).unwrap().0, Verdict::Note);
        std::fs::remove_file(&file).unwrap();
    }
}
