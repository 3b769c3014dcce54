alter table kb.web_settings drop column tried_at, drop column found, drop column took_ms, drop column failure;
