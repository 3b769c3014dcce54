//! Addresses, URLs and responses that are refused.

use super::*;

fn fetcher(named: &[&str]) -> Fetcher {
    let named: Vec<String> = named.iter().map(|&name| name.to_owned()).collect();
    Fetcher::new(Hosts::new("REJOIN_WEB_HOSTS", &named), Duration::from_secs(1))
}

#[tokio::test]
async fn addresses_of_this_machine_are_refused_in_any_spelling() {
    let fetcher = fetcher(&[]);
    for url in [
        "http://127.0.0.1/",
        "http://127.1/",
        "http://2130706433/",
        "http://0x7f000001/",
        "http://0177.0.0.1/",
        "http://[::1]/",
        "http://[::ffff:127.0.0.1]/",
        "http://[fc00::1]/",
        "http://169.254.169.254/latest/meta-data/",
        "http://10.0.0.1/",
        "http://localhost/",
    ] {
        let asked = fetcher
            .page(&Url::parse(url).unwrap(), &HeaderMap::new(), |_| true)
            .await;
        let refused = matches!(&asked, Err(FetchError::Refused(why)) if why.contains("REJOIN_WEB_HOSTS"));
        assert!(refused, "{url}: {asked:?}");
    }
}

#[tokio::test]
async fn refused_schemes_credentials_ports_and_hosts_are_not_asked() {
    for (url, word) in [
        ("ftp://example.com/", "http://"),
        ("file:///etc/passwd", "http://"),
        ("http://user:secret@example.com/", "credentials"),
        ("http://1.1.1.1:22/", "ports 80 and 443"),
        ("https://blocked.example/", "does not allow"),
    ] {
        let lets = |host: &str| host != "blocked.example";
        let refused = fetcher(&[])
            .page(&Url::parse(url).unwrap(), &HeaderMap::new(), lets)
            .await;
        let Err(FetchError::Refused(why)) = &refused else {
            panic!("{url}: {refused:?}")
        };
        assert!(why.contains(word) && !why.contains("secret"), "{url}: {why}");
    }
}

#[test]
fn what_unpacks_to_more_than_it_may_is_refused() {
    use std::io::Write;
    let packed = |bytes: usize| {
        let mut packing = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        packing.write_all(&vec![b'a'; bytes]).unwrap();
        packing.finish().unwrap()
    };
    let bomb = packed(64 * 1024 * 1024);
    assert!(bomb.len() < 100_000);
    assert_eq!(unpacked("gzip", bomb), Err(FetchError::TooLarge));
    assert_eq!(unpacked("gzip", packed(MAX_BYTES)).unwrap().len(), MAX_BYTES);
    assert!(matches!(
        unpacked("gzip", b"not packed".to_vec()),
        Err(FetchError::Broken(_))
    ));
    assert!(matches!(unpacked("br", Vec::new()), Err(FetchError::Broken(_))));
}
