-- Loses which user comes with which identity, and the tickets that were made with tokens.
delete from kb.stream_tickets where key_id is null;
alter table kb.stream_tickets
    drop constraint stream_tickets_credential,
    drop column token_expires_at,
    alter column key_id set not null;

drop table kb.identities;
