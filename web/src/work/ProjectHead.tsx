// The header of a project's views: its name, state and sections.
import { Link } from '@tanstack/react-router';
import { State } from '../ui/parts';
import { useTitle } from '../ui/title';
import type { Entity } from './board';

export function ProjectHead({ project }: { project: Entity }) {
  const { description } = project.properties as { description?: string | null };
  const params = { projectId: project.id };
  useTitle(project.name);
  return (
    <>
      <div className="title">
        <h1>{project.name}</h1>
        <State state={project.stateKey} />
      </div>
      {description ? <p className="about-page quiet">{description}</p> : null}
      <nav className="parts" aria-label="Project sections">
        <Link to="/work/$projectId" params={params} activeOptions={{ exact: true, includeSearch: false }}>
          Board
        </Link>
        <Link to="/work/$projectId/documents" params={params}>
          Documents
        </Link>
        <Link to="/graph/$id" params={{ id: project.id }}>
          In the graph
        </Link>
      </nav>
    </>
  );
}
