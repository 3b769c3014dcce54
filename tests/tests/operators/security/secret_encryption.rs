//! Encryption of secrets: a row that was changed does not decrypt, and master keys are rotated.

use rejoin_identity::audit;
use rejoin_secrets::{KeyError, MasterKeys, SecretError};
use rejoin_tests::support::{self, set_secret};
use serde_json::json;

use super::secrets::{CANARY, execute, key, master, opened, printed, rejoin, said};

#[tokio::test]
async fn a_row_that_was_changed_or_copied_elsewhere_does_not_open() {
    let db = support::database().await;
    let other = support::populated(db.url.clone()).await;
    let keys = master(&key("a"));
    set_secret(&db, &keys, "TOKEN", CANARY).await;
    let copy = format!(
        "insert into kb.secrets (project_id, name, key_id, wrapped_key, ciphertext)
         select '{}', name, key_id, wrapped_key, ciphertext from kb.secrets
         union all select project_id, 'COPY', key_id, wrapped_key, ciphertext from kb.secrets",
        other.workspace_id
    );
    assert_eq!(execute(&db, copy).await, 2);
    let refused = |opened: Result<Option<String>, SecretError>| {
        let error = opened.unwrap_err();
        let shown = format!("{error} {error:?}");
        assert!(!shown.contains(CANARY), "{shown}");
        matches!(error, SecretError::Tampered(_))
    };
    assert!(refused(opened(&other, &keys, "TOKEN").await), "another project's row");
    assert!(refused(opened(&db, &keys, "COPY").await), "another name's row");
    assert!(
        refused(opened(&db, &master(&key("a")), "TOKEN").await),
        "another key of that id"
    );
    let unknown = opened(&db, &master(&key("b")), "TOKEN").await.unwrap_err();
    assert!(unknown.to_string().contains("master key a"), "{unknown}");
    assert!(matches!(MasterKeys::configured(None, None), Err(KeyError::None)));

    assert_eq!(opened(&db, &keys, "TOKEN").await.unwrap().as_deref(), Some(CANARY));
    for column in ["wrapped_key", "ciphertext"] {
        for bit in [0, 100, 200, 479] {
            // Flipped, and flipped back.
            let flip = format!(
                "update kb.secrets set {column} = set_bit({column}, {bit}, 1 - get_bit({column}, {bit}))
                 where name = 'TOKEN' and project_id = '{}'",
                db.workspace_id
            );
            // The value has fewer bits than the longest of these.
            if column == "ciphertext" && bit >= (CANARY.len() + 28) * 8 {
                continue;
            }
            execute(&db, flip.clone()).await;
            assert!(refused(opened(&db, &keys, "TOKEN").await), "bit {bit} of {column}");
            execute(&db, flip).await;
        }
    }
    assert_eq!(opened(&db, &keys, "TOKEN").await.unwrap().as_deref(), Some(CANARY));
}

#[tokio::test]
async fn a_new_master_key_takes_the_place_of_the_old_one() {
    let db = support::database().await;
    let (old, new) = (key("old"), key("new"));
    let both = format!("{new},{old}");
    // More than one batch.
    for n in 0..230 {
        set_secret(&db, &master(&old), &format!("S{n}"), &format!("value {n}")).await;
    }
    let check = |keys: &str| rejoin(&db, Some(keys), &["rotate", "--check", "--json"], "");
    let unfinished = check(&both);
    assert_eq!(
        (printed(&unfinished), unfinished.status.code()),
        (
            json!({"keyId": "new", "old": 230, "byKey": [{"keyId": "old", "secrets": 230}]}),
            Some(1)
        )
    );
    // Without the old key nothing can be rotated, and nothing is.
    let stuck = rejoin(&db, Some(&new), &["rotate", "--json"], "");
    assert_eq!(
        (printed(&stuck), stuck.status.code()),
        (json!({"keyId": "new", "rewrapped": 0, "failed": 230}), Some(1))
    );
    assert!(said(&stuck).contains("master key old"), "{}", said(&stuck));
    // Values under the new key are not touched; a corrupted one does not block others.
    set_secret(&db, &master(&both), "S7", "value 7").await;
    execute(&db, "update kb.secrets set wrapped_key = set_bit(wrapped_key, 300, 1 - get_bit(wrapped_key, 300)) where name = 'S8'".to_owned()).await;
    let rotated = rejoin(&db, Some(&both), &["rotate", "--json"], "");
    assert_eq!(
        (printed(&rotated), rotated.status.code()),
        (json!({"keyId": "new", "rewrapped": 228, "failed": 1}), Some(1))
    );
    set_secret(&db, &master(&old), "S8", "value 8").await;
    let rest = rejoin(&db, Some(&both), &["rotate", "--json"], "");
    assert_eq!(
        (printed(&rest), rest.status.code()),
        (json!({"keyId": "new", "rewrapped": 1, "failed": 0}), Some(0))
    );
    assert_eq!(check(&both).status.code(), Some(0));
    for n in 0..230 {
        let name = format!("S{n}");
        assert_eq!(
            opened(&db, &master(&new), &name).await.unwrap(),
            Some(format!("value {n}"))
        );
        assert!(matches!(
            opened(&db, &master(&old), &name).await,
            Err(SecretError::UnknownKey { .. })
        ));
    }
    let mut connection = db.pool.acquire().await.unwrap();
    assert!(audit::verify(&mut connection, None).await.unwrap().holds());
    let rotations: i64 = sqlx::query_scalar(
        "select sum((detail ->> 'secrets')::bigint)::bigint from audit.entries where action = 'secret.rotated'",
    )
    .fetch_one(&mut *connection)
    .await
    .unwrap();
    assert_eq!(rotations, 229);
}
