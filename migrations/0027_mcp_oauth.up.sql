-- HTTP servers that want a token of an authorization server's.
alter table kb.project_mcp_servers
    -- http: how a token is got, by the client-credentials grant: {clientId, clientSecret, scopes?, tokenUrl?}. The secret is named,
    -- as ${NAME}, and never there. Null: no token is got.
    add column oauth jsonb check (jsonb_typeof(oauth) = 'object');
