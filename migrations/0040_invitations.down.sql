-- Loses: invitations. Users who have joined stay members.
drop table kb.invitations;
