// Shows the name of the workspace: as a menu of workspaces, if the session can go on in another one.
import { Building2, ChevronsUpDown } from 'lucide-react';
import { roleName } from '../settings/roles';
import { t } from '../ui/language';
import { Menu, MenuChoice } from '../ui/Menu';
import { useSwitch, useWorkspaces } from './workspaces';

export function WorkspaceMenu() {
  const workspaces = useWorkspaces();
  const switchTo = useSwitch();
  const current = workspaces.find(({ isCurrent }) => isCurrent);
  const shown = current ? (
    <>
      <Building2 className="icon" />
      <span className="hidden">{t('Workspace:')}</span>
      <span className="name">{current.name}</span>
    </>
  ) : null;
  return (
    <div className="workspace">
      {current && workspaces.length > 1 ? (
        <Menu
          align="start"
          trigger={
            <button type="button" className="side-link">
              {shown}
              <ChevronsUpDown className="icon" />
            </button>
          }
        >
          <MenuChoice
            label={t('Workspaces')}
            value={current.id}
            options={workspaces.map(({ id, name, role }) => [id, name, roleName(role)] as const)}
            onChange={(id) => {
              const chosen = workspaces.find((workspace) => workspace.id === id);
              if (chosen) void switchTo(chosen);
            }}
          />
        </Menu>
      ) : (
        <p>{shown}</p>
      )}
    </div>
  );
}
