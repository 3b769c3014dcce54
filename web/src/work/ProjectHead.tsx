// The header of a project's views: its name, state, actions and sections.
import { Link } from '@tanstack/react-router';
import { useMe } from '../api/me';
import { t } from '../ui/language';
import { State } from '../ui/parts';
import { useTitle } from '../ui/title';
import type { Entity } from './board';
import { ProjectActions } from './ProjectActions';

export function ProjectHead({ project }: { project: Entity }) {
  const { description } = project.properties as { description?: string | null };
  const mayWrite = useMe().scopes.includes('write');
  const params = { projectId: project.id };
  useTitle(project.name);
  return (
    <>
      <div className="title">
        <h1 dir="auto">{project.name}</h1>
        <State state={project.stateKey} />
        {mayWrite ? <ProjectActions project={project} /> : null}
      </div>
      {description ? (
        <p dir="auto" className="about-page quiet">
          {description}
        </p>
      ) : null}
      <nav className="parts" aria-label={t('Project sections')}>
        <Link to="/work/$projectId" params={params} activeOptions={{ exact: true, includeSearch: false }}>
          {t('Board')}
        </Link>
        <Link to="/work/$projectId/documents" params={params}>
          {t('Documents')}
        </Link>
        <Link to="/graph/$id" params={{ id: project.id }}>
          {t('In the graph')}
        </Link>
      </nav>
    </>
  );
}
