# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Files of meshes, found by what robot descriptions call them."""

import pytest

from dyn_ros.check.meshes import MeshError, find_mesh


@pytest.fixture
def mesh(tmp_path):
    path = tmp_path / "share" / "robot_pkg" / "meshes" / "a part.stl"
    path.parent.mkdir(parents=True)
    path.touch()
    return path


def test_a_mesh_of_a_package(mesh, tmp_path, monkeypatch):
    uri = "package://robot_pkg/meshes/a%20part.stl"
    with pytest.raises(MeshError, match="robot_pkg.*mesh_paths"):
        find_mesh(uri)
    monkeypatch.setenv("AMENT_PREFIX_PATH", f"/nowhere:{tmp_path}")
    assert find_mesh(uri) == mesh
    monkeypatch.delenv("AMENT_PREFIX_PATH")
    assert find_mesh(uri, [tmp_path / "share"]) == mesh
    monkeypatch.setenv("ROS_PACKAGE_PATH", str(tmp_path / "share"))
    assert find_mesh(uri) == mesh


def test_a_mesh_of_a_file(mesh):
    assert find_mesh(f"file://{mesh}") == mesh
    assert find_mesh(mesh.as_uri()) == mesh
    assert find_mesh(str(mesh)) == mesh
    assert find_mesh("a part.stl", [mesh.parent]) == mesh
    with pytest.raises(
        MeshError, match="'a part.stl' not found; .* or write package://PACKAGE/a p"
    ):
        find_mesh("a part.stl")
    with pytest.raises(
        MeshError, match="'file://meshes/a.stl': expected an absolute .* write 'meshes/a.stl' alone"
    ):
        find_mesh("file://meshes/a.stl")
    with pytest.raises(MeshError, match="file:///no/such.stl"):
        find_mesh("file:///no/such.stl")


@pytest.mark.parametrize(
    "uri",
    [
        "http://example.com/a.stl",
        "https://example.com/a.stl",
        "model://a.stl",
        "package:///a.stl",
        "",
    ],
)
def test_nothing_is_fetched(uri):
    with pytest.raises(MeshError):
        find_mesh(uri)
