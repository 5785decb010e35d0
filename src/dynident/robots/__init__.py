"""Robots: a source of models: URDF files, rigid body dynamics as expressions, friction laws."""
