//! Settings of an object store, and the names of objects.

use super::*;

fn args(url: &str) -> ObjectStoreArgs {
    ObjectStoreArgs {
        files_url: Some(url.parse().unwrap()),
        ..ObjectStoreArgs::default()
    }
}

#[test]
fn what_is_set_is_checked_before_the_first_file() {
    assert!(ObjectStore::of(&ObjectStoreArgs::default()).unwrap().is_none());
    let refused = |args: &ObjectStoreArgs| ObjectStore::of(args).unwrap_err().to_string();
    for url in ["file:///tmp/files", "s3:///no-bucket", "https://bucket/prefix"] {
        assert!(refused(&args(url)).contains("s3://BUCKET"), "{url}");
    }
    let mut half = args("s3://bucket");
    half.files_access_key_id = Some("id".to_owned());
    assert!(refused(&half).contains("together"));
    let mut lonely = args("s3://bucket");
    lonely.files_url = None;
    lonely.files_endpoint = Some("http://127.0.0.1:9000".parse().unwrap());
    assert!(refused(&lonely).contains("REJOIN_FILES_URL"));
    lonely.files_url = Some("s3://bucket".parse().unwrap());
    lonely.files_endpoint = Some("ftp://127.0.0.1".parse().unwrap());
    assert!(refused(&lonely).contains("https://"));
}

#[test]
fn objects_are_below_the_prefix_and_secrets_are_not_shown() {
    for (url, path) in [
        ("s3://bucket", "p/f"),
        ("s3://bucket/", "p/f"),
        ("s3://bucket/one/two/", "one/two/p/f"),
    ] {
        let store = ObjectStore::of(&args(url)).unwrap().unwrap();
        assert_eq!(store.path("p/f").as_ref(), path, "{url}");
    }
    let mut args = args("s3://bucket");
    args.files_access_key_id = Some("id".to_owned());
    args.files_secret_access_key = "very-secret".parse().ok();
    assert!(!format!("{args:?}").contains("very-secret"));
    assert!(!format!("{:?}", ObjectStore::of(&args).unwrap()).contains("very-secret"));
}
