-- What came of the last test of the search provider (docs/WEB_TOOLS.md): told here by the worker that asked it. Nulls: it was never tested
-- as it is set now.

alter table kb.web_settings
    add column tried_at timestamptz,
    -- How many pages it found, and how long that took.
    add column found    int check (found >= 0),
    add column took_ms  int check (took_ms >= 0),
    -- Why it found nothing out, in words without its key.
    add column failure  text;

grant update (tried_at, found, took_ms, failure) on kb.web_settings to rejoin_worker;
