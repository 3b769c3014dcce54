-- Sessions of browsers that go on in another project of their user (docs/operations/sign-in.md,
-- docs/decisions/0083-switched-sessions.md).

alter table kb.api_keys
    -- The scopes of a session in any project of its user, limited there by the user's role: it was begun with a credential that opens all of
    -- them. Null: the session stays in its project, or it is not a session.
    add column scopes_anywhere text[];

-- Moves a session to a project of its user, and returns the project that it has left, the user's role in the new one, the scopes that the
-- session has there before the role limits them, and the new project's quota. No row: nothing has changed, because the session has ended, its user
-- is not a member of the project or is a service account there, or the session stays in its project. It is all that the API may change of a
-- session besides its end.
create function kb.switch_session(p_session uuid, p_project uuid)
    returns table (left_project uuid, role text, scopes text[], runs_per_day bigint, tokens_per_day bigint)
language sql volatile security definer set search_path = pg_catalog, pg_temp as $$
    with session as (
        select k.id, k.project_id, coalesce(k.scopes_anywhere, k.scopes) as scopes, m.role, p.runs_per_day, p.tokens_per_day
        from kb.api_keys k
        join kb.project_members m on m.user_id = k.user_id and m.project_id = p_project
        join kb.projects p on p.id = m.project_id
        where k.id = p_session and k.kind = 'session' and k.revoked_at is null and k.expires_at > now()
          and (k.scopes_anywhere is not null or k.project_id = p_project)
          -- A service account is never signed in with a browser.
          and m.role <> 'service'
        -- A member who is removed at the same time is removed before, or after with this session.
        for update of k for share of m
    )
    update kb.api_keys k set project_id = p_project, scopes = session.scopes
    from session
    where k.id = session.id
    returning session.project_id, session.role, session.scopes, session.runs_per_day, session.tokens_per_day
$$;
revoke all on function kb.switch_session from public;
grant execute on function kb.switch_session to rejoin_gate;
