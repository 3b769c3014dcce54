//! Idempotency keys (invariant I8). Joins the command's transaction: the key is stored if and only if the command
//! commits.

use sqlx::PgConnection;
use uuid::Uuid;

use super::PostError;
use rejoin_faults::Fault;
use rejoin_types::owner::Owner;

/// The key, and the hash of the request.
#[derive(Debug, Clone)]
pub struct Idempotency {
    pub key: String,
    pub body_hash: Vec<u8>,
}

/// The result of the earlier request with the key.
#[derive(Debug, Clone, Copy)]
pub struct Earlier {
    /// None: a run without a conversation.
    pub conversation_id: Option<Uuid>,
    pub message_id: Option<Uuid>,
    pub run_id: Uuid,
    pub cursor: i64,
}

/// Returns the run for which a key was taken.
pub async fn run_of_key(db: &mut PgConnection, owner: Owner, key: &str) -> Result<Option<Uuid>, sqlx::Error> {
    sqlx::query_scalar!(
        "select run_id from kb.idempotency_keys where project_id = $1 and user_id = $2 and key = $3",
        owner.workspace_id,
        owner.user_id,
        key
    )
    .fetch_optional(db)
    .await
}

impl Idempotency {
    /// Stores the result of a key taken in this transaction.
    pub(super) async fn stands_for(
        &self,
        db: &mut PgConnection,
        owner: Owner,
        conversation_id: Uuid,
        message_id: Uuid,
        run_id: Uuid,
        cursor: i64,
    ) -> Result<(), sqlx::Error> {
        sqlx::query!(
            "update kb.idempotency_keys set conversation_id = $4, message_id = $5, run_id = $6, cursor = $7
             where project_id = $1 and user_id = $2 and key = $3",
            owner.workspace_id,
            owner.user_id,
            self.key,
            conversation_id,
            message_id,
            run_id,
            cursor
        )
        .execute(db)
        .await?;
        Ok(())
    }

    /// Takes the key for `run_id`, waiting for a concurrent request with the same key. Some: an earlier request with
    /// the same body took it.
    pub(super) async fn claim(
        &self,
        db: &mut PgConnection,
        owner: Owner,
        run_id: Uuid,
    ) -> Result<Option<Earlier>, PostError> {
        if rejoin_faults::enabled(Fault::IdempotencyIgnored) {
            return Ok(None);
        }
        let taken = sqlx::query!(
            "insert into kb.idempotency_keys (project_id, user_id, key, body_hash, run_id) values ($1, $2, $3, $4, $5)
             on conflict do nothing",
            owner.workspace_id,
            owner.user_id,
            self.key,
            self.body_hash,
            run_id
        )
        .execute(&mut *db)
        .await?;
        if taken.rows_affected() == 1 {
            return Ok(None);
        }
        let earlier = sqlx::query!(
            "select body_hash, conversation_id, message_id, run_id, cursor
             from kb.idempotency_keys where project_id = $1 and user_id = $2 and key = $3",
            owner.workspace_id,
            owner.user_id,
            self.key
        )
        .fetch_one(&mut *db)
        .await?;
        if earlier.body_hash != self.body_hash {
            return Err(PostError::KeyReused);
        }
        Ok(Some(Earlier {
            conversation_id: earlier.conversation_id,
            message_id: earlier.message_id,
            run_id: earlier.run_id,
            cursor: earlier.cursor,
        }))
    }
}
