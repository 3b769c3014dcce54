-- Loses the clients' names of conversations, the tools and instructions of runs, and what clients' tools returned.
delete from kb.questions where kind = 'client_tool';
alter table kb.questions
    drop constraint questions_kind_check,
    add constraint questions_kind_check check (kind in ('ask', 'confirm', 'task', 'plan')),
    drop constraint questions_interaction_type_check,
    add constraint questions_interaction_type_check
        check (interaction_type in ('buttons', 'select', 'multi_select', 'text', 'confirm'));
drop table kb.run_options;
drop index kb.chat_conversations_client_thread;
alter table kb.chat_conversations drop column client_thread;
